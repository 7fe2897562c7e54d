import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { countTime, NO_TIME } from '../../../src/sandbox/watch/processor-time.js';

/** Processes as the kernel keeps their time: that of a child goes to the parent that waits for it, else it is forgotten. */
interface Simulated {
  pid: number;
  start: string;
  parent: Simulated | null;
  own_ms: number;
  waited_ms: number;
  is_running: boolean;
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

const LOOK_MS = 50;
/** The kernel's ticks, which are taken for waited time that was not shown. */
const TICKS_MS = 20;

/** At each look: what is counted, what was really spent, what could not be seen of it, and what it may be taken for. */
function play(all: Step[]) {
  const root: Simulated = {
    pid: 1,
    start: '0',
    parent: null,
    own_ms: 0,
    waited_ms: 0,
    is_running: true,
  };
  let alive = [root];
  let [time, true_ms, unseen_ms, assumed_ms] = [NO_TIME, 0, 0, 0];
  const since_look = new Map<Simulated, number>();
  const looks = [];
  for (const [at, { who, does, ms, is_waited_for, look }] of all.entries()) {
    const one = alive[who % alive.length] ?? root;
    if (does === 'compute') {
      one.own_ms += ms;
      true_ms += ms;
      since_look.set(one, (since_look.get(one) ?? 0) + ms);
    } else if (does === 'fork') {
      // Numbers come back.
      alive.push({
        pid: 2 + (at % 3),
        start: `${at}`,
        parent: one,
        own_ms: 0,
        waited_ms: 0,
        is_running: true,
      });
    } else if (one !== root) {
      alive = alive.filter((other) => other !== one);
      assumed_ms += LOOK_MS;
      for (const child of alive) if (child.parent === one) child.parent = root;
      if (is_waited_for && one.parent !== null) {
        one.parent.waited_ms += one.own_ms + one.waited_ms;
      } else {
        unseen_ms += since_look.get(one) ?? 0;
      }
    }
    if (!look) continue;
    const processes = alive.map((simulated) => ({ ...simulated }));
    time = countTime(time, { processes, elapsed_ms: LOOK_MS });
    since_look.clear();
    looks.push({ counted_ms: time.spent_ms, true_ms, unseen_ms, assumed_ms });
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

  test('of children that are not waited for is as they were seen, and at most as busy from there to the next look', () => {
    const property = fc.property(steps(fc.boolean()), (all) => {
      let before_ms = 0;
      for (const { counted_ms, true_ms, assumed_ms } of play(all)) {
        assert.ok(counted_ms >= before_ms, 'it never falls');
        assert.ok(counted_ms <= true_ms + assumed_ms, `${counted_ms} of ${true_ms}`);
        before_ms = counted_ms;
      }
    });
    fc.assert(property);
    const never = fc.property(steps(fc.constant(false)), (all) => {
      for (const { counted_ms, true_ms, unseen_ms } of play(all)) {
        const least_ms = true_ms - unseen_ms - TICKS_MS;
        assert.ok(counted_ms >= least_ms, `${counted_ms} of ${true_ms}, ${unseen_ms} unseen`);
      }
    });
    fc.assert(never);
  });

  const parent = { pid: 1, start: '0', own_ms: 10, waited_ms: 0, is_running: false };
  const child = { pid: 2, start: '1', own_ms: 500, waited_ms: 0, is_running: true };

  test('of a parent that is read before its child has ended is not counted twice', () => {
    const both = countTime(NO_TIME, { processes: [parent, child], elapsed_ms: 0 });
    const between = countTime(both, { processes: [parent], elapsed_ms: LOOK_MS });
    assert.equal(between.spent_ms, 510);
    const waited = { ...parent, waited_ms: 500 };
    const after = countTime(between, { processes: [waited], elapsed_ms: LOOK_MS });
    assert.equal(after.spent_ms, 510);
  });

  test('counts where every look sees another child that has just begun', () => {
    let time = NO_TIME;
    for (let pid = 2; pid < 100; pid++) {
      const short = { ...child, pid, start: `${pid}`, own_ms: 1 };
      time = countTime(time, { processes: [parent, short], elapsed_ms: LOOK_MS });
    }
    assert.ok(time.spent_ms > 70 * LOOK_MS && time.spent_ms < 110 * LOOK_MS, `${time.spent_ms}`);
  });
});
