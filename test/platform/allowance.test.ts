import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createAllowance, withShare } from '../../src/platform/waits/allowance.js';
import type { Allowance } from '../../src/platform/waits/allowance.js';
import { settled } from '../fakes/manual-clock.js';

const signal = new AbortController().signal;

/** Takes, and says whether it has got it yet. */
function take(allowance: Allowance, { bytes, own = signal }: { bytes: number; own?: AbortSignal }) {
  const share = allowance.share();
  const taking = { has: false, share, error: null as unknown };
  share.take(bytes, own).then(
    () => (taking.has = true),
    (error: unknown) => (taking.error = error),
  );
  return taking;
}

describe('an allowance', () => {
  test('goes to as many at once as fit, in the order in which they came', async () => {
    const allowance = createAllowance(10);
    const shares = [6, 4, 5, 1].map((bytes) => take(allowance, { bytes }));
    const have = async (): Promise<boolean[]> => {
      await settled();
      return shares.map(({ has }) => has);
    };
    assert.deepEqual(await have(), [true, true, false, false], 'none overtakes');
    shares[1]?.share.giveBack();
    assert.deepEqual(await have(), [true, true, false, false]);
    shares[0]?.share.giveBack();
    shares[0]?.share.giveBack();
    assert.deepEqual(await have(), [true, true, true, true]);
  });

  test('goes to one that is larger than it alone', async () => {
    const allowance = createAllowance(0);
    const [first, second] = [take(allowance, { bytes: 100 }), take(allowance, { bytes: 1 })];
    await settled();
    assert.deepEqual([first.has, second.has], [true, false]);
    first.share.giveBack();
    await settled();
    assert.equal(second.has, true);
  });

  test('is not held for a waiter that has left', async () => {
    const allowance = createAllowance(10);
    const leaver = new AbortController();
    const [first, second, third] = [
      take(allowance, { bytes: 8 }),
      take(allowance, { bytes: 9, own: leaver.signal }),
      take(allowance, { bytes: 2 }),
    ];
    leaver.abort(new Error('enough'));
    await settled();
    assert.equal(String(second.error), 'Error: enough');
    assert.deepEqual([first.has, third.has], [true, true]);
  });

  test('never makes one that holds some wait for itself', async () => {
    const allowance = createAllowance(10);
    const [first, second] = [take(allowance, { bytes: 10 }), take(allowance, { bytes: 1 })];
    await settled();
    await first.share.take(5, signal);
    assert.equal(second.has, false);
    first.share.giveBack();
    await settled();
    assert.equal(second.has, true);
  });

  test('comes back from a run that fails', async () => {
    const allowance = createAllowance(0);
    const failing = withShare(allowance, async (share) => {
      await share.take(7, signal);
      throw new Error('no answer');
    });
    await assert.rejects(failing, /no answer/);
    const next = take(allowance, { bytes: 7 });
    await settled();
    assert.equal(next.has, true);
  });

  test('is never exceeded by two holders, in whatever order they take, leave and give back', async () => {
    const steps = fc.array(
      fc.record({
        who: fc.nat(5),
        what: fc.constantFrom('take', 'leave', 'giveBack'),
        bytes: fc.nat(12),
      }),
      { maxLength: 40 },
    );
    await fc.assert(
      fc.asyncProperty(steps, async (given) => {
        const allowance = createAllowance(10);
        const visits = new Map<
          number,
          { bytes: number; has: boolean; stop: AbortController; giveBack: () => void }
        >();
        for (const { who, what, bytes } of given) {
          const visit = visits.get(who);
          if (what === 'take' && visit === undefined) {
            const stop = new AbortController();
            const share = allowance.share();
            const made = { bytes, has: false, stop, giveBack: share.giveBack };
            visits.set(who, made);
            share.take(bytes, stop.signal).then(
              () => (made.has = true),
              () => visits.delete(who),
            );
          } else if (what === 'leave' && visit?.has === false) {
            visit.stop.abort(new Error('enough'));
          } else if (what === 'giveBack' && visit?.has === true) {
            visits.delete(who);
            visit.giveBack();
          }
          await settled();
          const holding = [...visits.values()].filter(({ has }) => has).map((one) => one.bytes);
          const held = holding.reduce((sum, one) => sum + one, 0);
          const counted = holding.filter((one) => one > 0).length;
          assert.ok(held <= 10 || counted === 1, holding.join(' + '));
          assert.ok(visits.size === 0 || holding.length > 0, 'one waits although none holds any');
        }
      }),
      { numRuns: 200 },
    );
  });
});
