import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { createWaitingLine } from '../../src/platform/waits/waiting-line.js';

/** A line for `size` units of room, and how much of it is taken. */
function roomOf(size: number) {
  const room = { taken: 0, line: createWaitingLine(admit) };
  function admit(units: number): number | null {
    if (room.taken > 0 && room.taken + units > size) return null;
    room.taken += units;
    return units;
  }
  return room;
}

const NEVER = new AbortController().signal;

describe('a waiting line', () => {
  test('serves in the order of arrival: none passes the first, also where it would fit', async () => {
    const { line } = roomOf(2);
    const served: string[] = [];
    const join = (name: string, units: number): Promise<void> =>
      line.join(units, NEVER).then(() => void served.push(name));
    await join('a', 2);
    void join('b', 2);
    void join('c', 0);
    await Promise.resolve();
    assert.deepEqual(served, ['a']);
    assert.equal(line.length(), 2);
  });

  test('rejects with the reason of a signal, before as while it waits', async () => {
    const { line } = roomOf(1);
    await line.join(1, NEVER);
    const stop = new AbortController();
    const waits = line.join(1, stop.signal);
    const reason = new Error('enough');
    stop.abort(reason);
    await assert.rejects(waits, reason);
    await assert.rejects(line.join(1, stop.signal), reason);
    assert.equal(line.length(), 0);
  });

  test('moves up when the first one leaves', async () => {
    const room = roomOf(2);
    await room.line.join(1, NEVER);
    const stop = new AbortController();
    const large = room.line.join(2, stop.signal);
    const small = room.line.join(1, NEVER);
    stop.abort(new Error('enough'));
    await assert.rejects(large);
    assert.equal(await small, 1);
  });

  test('lets one pass whom its order prefers, decided anew for each place, and else keeps to the arrival', async () => {
    const served: string[] = [];
    const held = new Map<string, number>();
    const of = (name: string): number => held.get(name[0]!) ?? 0;
    let room = 1;
    const line = createWaitingLine(
      (name: string) => (room > 0 ? (room--, held.set(name[0]!, of(name) + 1), name) : null),
      (one, earlier) => of(one) < of(earlier),
    );
    const names = ['a1', 'a2', 'a3', 'b1', 'b2', 'c1'];
    for (const name of names) void line.join(name, NEVER).then(() => served.push(name));
    for (let place = 0; place < names.length; place++) {
      room++;
      line.serve();
    }
    await Promise.resolve();
    assert.deepEqual(served, ['a1', 'b1', 'c1', 'a2', 'b2', 'a3']);
    assert.equal(line.length(), 0);
  });

  test('loses no place, whatever is aborted when', async () => {
    const action = fc.record({ units: fc.integer({ min: 1, max: 3 }), aborts: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(action, { maxLength: 20 }), async (actions) => {
        const room = roomOf(4);
        const giveBack = (units: number): void => {
          room.taken -= units;
          room.line.serve();
        };
        const all = actions.map(async ({ units, aborts }) => {
          const controller = new AbortController();
          const place = room.line.join(units, controller.signal);
          if (aborts) queueMicrotask(() => { controller.abort(new Error('enough')); }); // prettier-ignore
          await place.then(giveBack, () => undefined);
        });
        await Promise.all(all);
        assert.equal(room.taken, 0);
        assert.equal(room.line.length(), 0);
      }),
    );
  });
});
