import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Member } from '../../src/workflows/children/refill.js';
import { MOST_CHILDREN, queueMembers } from '../../src/workflows/children/refill.js';

const ROWS = { first: 3, last: 4 };

const names = (members: readonly Member[]): string[] =>
  members.map(({ row, repeat, replaces }) => {
    const of = replaces === undefined ? '' : ` for ${replaces}`;
    return `${row}-${repeat}${of}`;
  });

/** All who can be played now. */
function drain(line: ReturnType<typeof queueMembers>): string[] {
  const members: Member[] = [];
  for (let member = line.next(); member !== null; member = line.next()) members.push(member);
  assert.ok(line.isEmpty());
  return names(members);
}

describe('the line-up of some rows', () => {
  test('is the members of each group, in input order', () => {
    const line = queueMembers({ rows: ROWS, num_repeats: 2, max_replacements: 0 });
    assert.ok(!line.isEmpty());
    assert.deepEqual(drain(line), ['3-0', '3-1', '4-0', '4-1']);
  });

  test('has no replacement for a failed member if none are requested', () => {
    const line = queueMembers({ rows: ROWS, num_repeats: 2, max_replacements: 0 });
    line.failed({ row: 3, repeat: 0 });
    assert.deepEqual(drain(line), ['3-0', '3-1', '4-0', '4-1']);
  });

  test('puts a replacement before the members that have not begun', () => {
    const line = queueMembers({ rows: ROWS, num_repeats: 2, max_replacements: 9 });
    assert.deepEqual(names([line.next()!, line.next()!]), ['3-0', '3-1']);
    line.failed({ row: 3, repeat: 1 });
    assert.deepEqual(drain(line), ['3-2 for 1', '4-0', '4-1']);
  });

  test('numbers replacements on in each group, those of replacements too, in the order of failures', () => {
    const line = queueMembers({ rows: ROWS, num_repeats: 2, max_replacements: 9 });
    drain(line);
    line.failed({ row: 4, repeat: 1 });
    line.failed({ row: 3, repeat: 0 });
    line.failed({ row: 4, repeat: 0 });
    assert.deepEqual(drain(line), ['4-2 for 1', '3-2 for 0', '4-3 for 0']);
    line.failed({ row: 4, repeat: 2, replaces: 1 });
    assert.deepEqual(drain(line), ['4-4 for 2']);
  });

  test('keeps who found no replacement left, for when more are allowed', () => {
    const line = queueMembers({ rows: ROWS, num_repeats: 2, max_replacements: 1 });
    drain(line);
    for (const repeat of [0, 1]) line.failed({ row: 3, repeat });
    line.failed({ row: 4, repeat: 0 });
    assert.deepEqual(drain(line), ['3-2 for 0']);
    line.allow(2);
    assert.deepEqual(drain(line), ['3-3 for 1']);
    line.allow(9);
    assert.deepEqual(drain(line), ['4-2 for 0']);
  });

  test('passes over what has not begun of groups that need no more', () => {
    const rows = { first: 3, last: 5 };
    const line = queueMembers({ rows, num_repeats: 2, max_replacements: 0, k: 1 });
    assert.deepEqual(names([line.next()!]), ['3-0']);
    assert.ok(line.valid(3) && line.valid(4));
    assert.ok(!line.isEmpty());
    assert.deepEqual(names([line.next()!]), ['5-0']);
    line.valid(5);
    assert.ok(line.isEmpty());
    assert.equal(line.next(), null);
  });

  test('never starts so many children that the history of their parent grows too long', () => {
    const rows = { first: 0, last: 0 };
    const line = queueMembers({ rows, num_repeats: 300, max_replacements: 10_000 });
    drain(line);
    for (let i = 0; i < 1000; i++) line.failed({ row: 0, repeat: i });
    assert.equal(drain(line).length, MOST_CHILDREN - 300);
    // Each with a workflow task of its own for start, stop and end.
    assert.ok(MOST_CHILDREN * 14 < 5000);
  });
});

describe('with any failures in any order', () => {
  type Batch = typeof batches extends fc.Arbitrary<infer B> ? B : never;
  const batches = fc.record({
    samples: fc.integer({ min: 1, max: 5 }),
    num_repeats: fc.integer({ min: 1, max: 4 }),
    max_replacements: fc.integer({ min: 0, max: 8 }),
    more: fc.integer({ min: 0, max: 4 }),
    max_in_flight: fc.integer({ min: 1, max: 6 }),
    /** For each step: which of the running ones ends, and how. */
    steps: fc.array(fc.record({ which: fc.nat(), fails: fc.boolean() }), { maxLength: 60 }),
  });

  interface Played {
    started: Member[];
    failed: Member[];
  }

  /** As many run as may; at each step one of them ends; at half of the steps more replacements arrive. */
  function play(batch: Batch): Played {
    const { samples, max_replacements, more, max_in_flight, steps } = batch;
    const line = queueMembers({ rows: { first: 0, last: samples - 1 }, ...batch });
    const running: Member[] = [];
    const played: Played = { started: [], failed: [] };
    const startAll = (): void => {
      while (running.length < max_in_flight && !line.isEmpty()) {
        const member = line.next();
        assert.ok(member !== null, 'not empty, and nobody is next');
        running.push(member);
        played.started.push(member);
      }
    };
    startAll();
    for (const [i, { which, fails }] of steps.entries()) {
      if (i === Math.floor(steps.length / 2)) line.allow(max_replacements + more);
      const [ended] = running.splice(which % Math.max(1, running.length), 1);
      if (ended === undefined) break;
      if (fails) {
        played.failed.push(ended);
        line.failed(ended);
      }
      startAll();
    }
    return played;
  }

  const keyOf = (row: number, repeat: number): string => `${row}-${repeat}`;

  test('there are never more replacements than allowed, and each is for one that failed, once', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        const { started, failed } = play(batch);
        const replacements = started.filter(({ replaces }) => replaces !== undefined);
        assert.ok(replacements.length <= batch.max_replacements + batch.more);
        const replaced = replacements.map(({ row, replaces = -1 }) => keyOf(row, replaces));
        assert.equal(new Set(replaced).size, replaced.length);
        const order = failed.map(({ row, repeat }) => keyOf(row, repeat));
        assert.deepEqual(replaced, order.slice(0, replaced.length));
      }),
    );
  });

  test('no repeat is played twice, and the repeats of each group have no gaps', () => {
    fc.assert(
      fc.property(batches, (batch) => {
        const { started } = play(batch);
        const { num_repeats } = batch;
        const inOrder = (repeats: number[], first: number): void => {
          assert.deepEqual(
            repeats,
            repeats.map((_, i) => first + i),
          );
        };
        for (const row of new Set(started.map((member) => member.row))) {
          const group = started.filter((member) => member.row === row);
          const [originals, replacements] = [
            group.filter(({ replaces }) => replaces === undefined),
            group.filter(({ replaces }) => replaces !== undefined),
          ];
          inOrder(
            originals.map(({ repeat }) => repeat),
            0,
          );
          inOrder(
            replacements.map(({ repeat }) => repeat),
            num_repeats,
          );
          assert.ok(originals.length <= num_repeats);
        }
      }),
    );
  });
});
