import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createRunAttempt } from '../../src/activities/attempt.js';
import { createTelling, waitIn } from '../../src/activities/waits.js';
import type { Waiting } from '../../src/activities/contract.js';
import { mockAttempt } from '../fakes/activity-bench.js';

const SILENT = { service: 'engine', message: 'no answer yet' };
const HELD = { ...SILENT, holds: true } as const;

/** Attempts of one process that wait at once; whom they told what, and what their last heartbeat has. */
async function waitOf(
  attempts: number,
  { waits, now }: { waits: readonly (Waiting | null)[]; now: () => number },
): Promise<{ told: (Waiting | null)[]; kept: unknown[] }> {
  const told: (Waiting | null)[] = [];
  const run = createRunAttempt({
    signalWaiting: (_, waiting) => Promise.resolve(void told.push(waiting)),
    mayTell: createTelling(now),
  });
  const kept = await Promise.all(
    Array.from({ length: attempts }, () => {
      const attempt = mockAttempt({ heartbeat_timeout_ms: 15 });
      let last: unknown;
      attempt.on('heartbeat', (details: unknown) => (last = structuredClone(details)));
      return attempt.run(() =>
        run(async ({ reportWaiting }) => {
          for (const waiting of waits) await reportWaiting(waiting);
          await new Promise((resolve) => setTimeout(resolve, 50));
          return waitIn(last)?.message ?? null;
        }),
      );
    }),
  );
  return { told, kept };
}

describe('where many rollouts of a process wait', () => {
  test('the first 64 tell their workflows so and when it is over, and all say it in heartbeats', async () => {
    const { told, kept } = await waitOf(100, { waits: [SILENT], now: () => 0 });
    assert.deepEqual(kept, Array(100).fill('no answer yet'));
    // The end of an attempt ends its wait.
    assert.deepEqual(
      told,
      [SILENT, null].flatMap((one) => Array<typeof one>(64).fill(one)),
    );
  });

  test('heartbeats of those that told nothing lose a wait that is over, too', async () => {
    const { told, kept } = await waitOf(66, { waits: [SILENT, null], now: () => 0 });
    assert.equal(told.length, 128);
    assert.deepEqual(kept, Array(66).fill(null));
  });

  test('one more tells it each second', async () => {
    let now = 0;
    const { told } = await waitOf(70, { waits: [SILENT], now: () => (now += 500) });
    assert.equal(told.filter((one) => one !== null).length, 70);
    const late = createTelling(() => now);
    const mays = (): number => Array.from({ length: 200 }, late).filter((may) => may).length;
    assert.equal(mays(), 64);
    now += 3500;
    assert.equal(mays(), 3);
    now += 500;
    assert.equal(mays(), 1);
    now += 1e9;
    assert.equal(mays(), 64);
  });

  test('that no replica serves is told by all, because it moves their deadlines', async () => {
    const { told } = await waitOf(100, { waits: [SILENT, HELD, null], now: () => 0 });
    assert.equal(told.filter((one) => one?.holds === true).length, 100);
    assert.equal(told.filter((one) => one === null).length, 100);
    assert.equal(told.length, 264);
  });
});
