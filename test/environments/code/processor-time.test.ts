import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { countTime, NO_TIME } from '../../../src/environments/code/processor-time.js';

/** Processes as the kernel keeps their time: that of a child goes to the parent that waits for it, else it is forgotten. */
interface Simulated {
  pid: number;
  start: string;
  parent: Simulated | null;
  own_ms: number;
  waited_ms: number;
}

interface Step {
  who: number;
  does: 'compute' | 'fork' | 'end';
  ms: number;
  is_waited_for: boolean;
  look: boolean;
}

const steps = (waited: fc.Arbitrary<boolean>): fc.Arbitrary<Step[]> =>
  fc.array(
    fc.record({
      who: fc.nat(),
      does: fc.constantFrom('compute' as const, 'fork' as const, 'end' as const),
      ms: fc.nat(100),
      is_waited_for: waited,
      look: fc.boolean(),
    }),
    { maxLength: 60 },
  );

/** At each look: what is counted, what was really spent, and what nobody could see of it. */
function play(all: Step[]) {
  const root: Simulated = { pid: 1, start: '0', parent: null, own_ms: 0, waited_ms: 0 };
  let alive = [root];
  let [time, true_ms, unseen_ms] = [NO_TIME, 0, 0];
  const since_look = new Map<Simulated, number>();
  const looks: { counted_ms: number; true_ms: number; unseen_ms: number }[] = [];
  for (const [at, { who, does, ms, is_waited_for, look }] of all.entries()) {
    const one = alive[who % alive.length] ?? root;
    if (does === 'compute') {
      one.own_ms += ms;
      true_ms += ms;
      since_look.set(one, (since_look.get(one) ?? 0) + ms);
    } else if (does === 'fork') {
      // Numbers come back.
      alive.push({ pid: 2 + (at % 3), start: `${at}`, parent: one, own_ms: 0, waited_ms: 0 });
    } else if (one !== root) {
      alive = alive.filter((other) => other !== one);
      for (const child of alive) if (child.parent === one) child.parent = root;
      if (is_waited_for && one.parent !== null) {
        one.parent.waited_ms += one.own_ms + one.waited_ms;
      } else {
        unseen_ms += since_look.get(one) ?? 0;
      }
    }
    if (!look) continue;
    time = countTime(
      time,
      alive.map((one) => ({ ...one })),
    );
    since_look.clear();
    looks.push({ counted_ms: time.spent_ms, true_ms, unseen_ms });
  }
  return looks;
}

describe('processor time of a tree', () => {
  test('is exactly what was spent where children are waited for', () => {
    const property = fc.property(steps(fc.constant(true)), (all) => {
      for (const { counted_ms, true_ms } of play(all)) assert.equal(counted_ms, true_ms);
    });
    fc.assert(property);
  });

  test('misses of children that nobody waits for what they spent since they were last seen, and no more', () => {
    const property = fc.property(steps(fc.constant(false)), (all) => {
      for (const { counted_ms, true_ms, unseen_ms } of play(all)) {
        assert.ok(
          counted_ms >= true_ms - unseen_ms,
          `${counted_ms} of ${true_ms}, ${unseen_ms} unseen`,
        );
        assert.ok(counted_ms <= true_ms, `${counted_ms} of ${true_ms}`);
      }
    });
    fc.assert(property);
  });

  test('never falls, and is never more than was spent', () => {
    const property = fc.property(steps(fc.boolean()), (all) => {
      let before_ms = 0;
      for (const { counted_ms, true_ms } of play(all)) {
        assert.ok(counted_ms >= before_ms && counted_ms <= true_ms);
        before_ms = counted_ms;
      }
    });
    fc.assert(property);
  });

  test('of a parent that is read before its child has ended is not counted twice', () => {
    const parent = { pid: 1, start: '0', own_ms: 10, waited_ms: 0 };
    const child = { pid: 2, start: '1', own_ms: 500, waited_ms: 0 };
    const both = countTime(NO_TIME, [parent, child]);
    const between = countTime(both, [parent]);
    assert.equal(between.spent_ms, 510);
    const after = countTime(between, [{ ...parent, waited_ms: 500 }]);
    assert.equal(after.spent_ms, 510);
  });
});
