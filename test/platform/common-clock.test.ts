import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { clockAhead } from '../../src/temporal/server-clock.js';
import {
  commonMs,
  differenceText,
  hostMs,
  takeAhead,
} from '../../src/platform/waits/common-clock.js';

const HOUR = 3_600_000;

describe('the common clock', () => {
  const taken = (t: TestContext, ...measured: number[]): { news: boolean[]; ahead: number } => {
    t.after(() => takeAhead(0));
    const news = measured.map(takeAhead);
    return { news, ahead: Math.round((hostMs() - commonMs()) / 1000) + 0 };
  };

  test('is this host’s own, as long as it agrees with the server’s within seconds', (t) => {
    assert.deepEqual(taken(t, 4999, -4999, 0), { news: [false, false, false], ahead: 0 });
  });

  test('is the server’s where they disagree, and that is news once', (t) => {
    assert.deepEqual(taken(t, HOUR, HOUR + 20), { news: [true, false], ahead: 3600 });
    assert.deepEqual(taken(t, 0, -HOUR), { news: [false, true], ahead: -3600 });
  });

  test('is this host’s own again once somebody has set it', (t) => {
    assert.deepEqual(taken(t, HOUR, 3), { news: [true, false], ahead: 0 });
  });

  test('is said in words', () => {
    assert.equal(differenceText(HOUR), '3600 s ahead of');
    assert.equal(differenceText(-61_400), '61 s behind');
  });
});

describe('the server’s clock', () => {
  /** A server that notes a poll after so many looks; a poll ends when it is aborted. */
  const serverAfter = (looks: number, behind_ms: number) => {
    const state = { polled: '', by: '', ended: 0 };
    let signal: AbortSignal | null = null;
    let at = 0;
    return {
      state,
      withAbortSignal: <T>(given: AbortSignal, call: () => Promise<T>): Promise<T> => {
        signal = given;
        return call();
      },
      workflowService: {
        pollWorkflowTaskQueue: (poll: { taskQueue: { name: string }; identity: string }) => {
          at = hostMs() - behind_ms;
          Object.assign(state, { polled: poll.taskQueue.name, by: poll.identity });
          return new Promise<never>((_, reject) => {
            signal?.addEventListener('abort', () => {
              state.ended += 1;
              reject(new Error('1 CANCELLED'));
            });
          });
        },
        describeTaskQueue: ({ taskQueue }: { taskQueue: { name: string } }) => {
          assert.equal(taskQueue.name, state.polled);
          const lastAccessTime = {
            seconds: String(Math.floor(at / 1000)),
            nanos: (at % 1000) * 1e6,
          };
          const others = { identity: 'another', lastAccessTime: { seconds: '1', nanos: 0 } };
          const own = { identity: state.by, lastAccessTime };
          return Promise.resolve({ pollers: looks-- > 0 ? [others] : [others, own] });
        },
      },
    };
  };

  test('is read from when the server noted a question for tasks, which does not stay open', async () => {
    for (const looks of [0, 2]) {
      const { state, ...server } = serverAfter(looks, HOUR);
      const ahead = await clockAhead(server as never, { namespace: 'ns' });
      assert.ok(Math.abs((ahead ?? 0) - HOUR) < 1000, String(ahead));
      assert.equal(state.ended, 1);
    }
  });

  test('is asked on one task queue, of which the server keeps what it knows for ever', async () => {
    const asked = new Set<string>();
    for (let time = 0; time < 144; time++) {
      const { state, ...server } = serverAfter(0, HOUR);
      await clockAhead(server as never, { namespace: 'ns' });
      asked.add(state.polled);
    }
    assert.equal(asked.size, 1);
  });

  test('is not known where the server notes none', async () => {
    const { state, ...server } = serverAfter(Infinity, HOUR);
    assert.equal(await clockAhead(server as never, { namespace: 'ns' }), null);
    assert.equal(state.ended, 1);
  });
});
