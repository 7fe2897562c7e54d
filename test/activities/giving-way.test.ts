import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { Idles } from '../../src/activities/giving-way.js';
import { GaveWay } from '../../src/activities/giving-way.js';
import { withLease } from '../../src/activities/lease.js';
import { createSlots } from '../../src/activities/slots.js';
import { Fault } from '../../src/model/faults.js';
import { createAllowance } from '../../src/platform/waits/allowance.js';
import { attemptOf } from '../fakes/attempt.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { deltaOf, says, scriptedService } from '../fakes/scripted-service.js';
import { REF } from '../fakes/temporary-store.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const settled = async (): Promise<void> => {
  for (let i = 0; i < 50; i++) await nextTurn();
};

/** An attempt that waits until its signal aborts or it is let go. */
function waiting(t: TestContext, { hasGivenWay = false, isCrowded = (): boolean => true } = {}) {
  t.mock.timers.enable({ apis: ['setInterval'] });
  let say: Idles = () => assert.fail('it has not begun');
  let go = (): void => undefined;
  const seen: { error?: unknown } = {};
  const term = { attempt: attemptOf({ hasGivenWay, isCrowded }), ref: REF };
  const shared = { folds: createAllowance(Infinity), limits: { follow: () => () => undefined } };
  const running = withLease({ ...term, ...shared }, ({ signal, idles }) => {
    say = idles;
    return new Promise<void>((resolve, reject) => {
      go = resolve;
      signal.addEventListener('abort', () => {
        reject(signal.reason as Error);
      });
    });
  }).catch((error: unknown) => {
    seen.error = error;
  });
  const after = async (seconds: number): Promise<boolean> => {
    t.mock.timers.tick(seconds * 1000);
    await settled();
    return seen.error instanceof GaveWay;
  };
  const end = async (): Promise<void> => {
    go();
    await running;
  };
  return {
    idles: (isOver: Parameters<Idles>[0]) => {
      say(isOver);
    },
    after,
    end,
  };
}

const stillWaits = (): boolean => false;

describe('an attempt that waits idly', () => {
  test('gives way after 15 s where others need its slot', async (t) => {
    const { idles, after } = waiting(t);
    idles(stillWaits);
    assert.equal(await after(14), false);
    assert.equal(await after(1), true);
  });

  test('waits on as long as nobody needs it, and gives way within a second of somebody who does', async (t) => {
    let isCrowded = false;
    const { idles, after } = waiting(t, { isCrowded: () => isCrowded });
    idles(stillWaits);
    assert.equal(await after(3600), false);
    isCrowded = true;
    assert.equal(await after(1), true);
  });

  test('plays on when the wait is over, said or seen', async (t) => {
    const { idles, after, end } = waiting(t);
    idles(stillWaits);
    assert.equal(await after(14), false);
    idles(null);
    assert.equal(await after(60), false);
    idles(() => true);
    assert.equal(await after(60), false);
    await end();
  });

  test('after one that has given way only looks whether the wait is over', async (t) => {
    const { idles, after } = waiting(t, { hasGivenWay: true });
    idles(null);
    idles(stillWaits);
    assert.equal(await after(1), true);
  });

  test('has all of its patience for its next wait', async (t) => {
    const { idles, after, end } = waiting(t, { hasGivenWay: true });
    idles(stillWaits);
    idles(null);
    idles(stillWaits);
    assert.equal(await after(14), false);
    await end();
  });
});

describe('a rollout at a paused engine, where its slot is the only one', () => {
  const cut = new Fault({ type: 'GenerationUnavailable', message: 'aborted' });

  test('gives it back, counts no fault, and goes on behind its last token once the engine does', async (t) => {
    t.mock.timers.enable({ apis: ['setInterval'] });
    let paused = true;
    const script = [{ deltas: [deltaOf('to the ')], then: cut }, says('left¶')];
    const service = scriptedService(script, { isPaused: () => paused });
    const environment = scriptedEnvironment([{ terminated: true, reward: 1 }]);
    const bench = await activityBench(t, {
      service,
      environment,
      slots: createSlots(new Map([['test', 1]])),
    });
    await bench.started();
    const attempt = async (
      seconds: number,
      { number = 1, heartbeatDetails }: { number?: number; heartbeatDetails?: unknown } = {},
    ) => {
      const running = bench.run('playTurns', { input: AT, number, heartbeatDetails });
      for (let second = 0; second < seconds; second++) {
        await settled();
        t.mock.timers.tick(1000);
      }
      return await running;
    };
    const first = await attempt(17);
    assert.deepEqual(failureOf(first.error), ['GaveWay', false, 15_000]);
    const details = first.heartbeats.at(-1) as { gave_way?: true; waits_for?: unknown };
    assert.equal(details.gave_way, true);
    assert.deepEqual(details.waits_for, {
      service: service.replica,
      message: 'the engine is paused',
    });
    // It asks before it sends anything, and looks for a moment.
    const second = await attempt(3, { number: 2, heartbeatDetails: details });
    assert.deepEqual(failureOf(second.error), ['GaveWay', false, 15_000]);
    assert.equal(service.requests.length, 1);
    assert.deepEqual([...first.waiting, ...second.waiting].length, 1, 'the wait is said once');
    paused = false;
    const third = await attempt(1, { number: 3, heartbeatDetails: second.heartbeats.at(-1) });
    assert.equal(third.result?.ended, 'terminated');
    assert.deepEqual(third.waiting, [null], 'its workflow hears that the wait is over');
    const played = await bench.elsewhere().readTrajectory(REF);
    const { faults } = played;
    const turns = turnsOf(played);
    assert.deepEqual([turns[0]?.generation.content, faults], ['to the left', {}]);
    bench.checkPlayed();
  });
});

const failureOf = (error: unknown): unknown[] => {
  const { type, nonRetryable, nextRetryDelay } = error as Record<string, unknown>;
  return [type, nonRetryable, nextRetryDelay];
};
