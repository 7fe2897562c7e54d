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
      { kind: (name) => name[0]!, precedes: (one, earlier) => of(one) < of(earlier) },
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

  test('serves whom a look at all of them would serve, whoever joins, leaves and gives back', () => {
    interface Wish {
      kind: number;
      id: number;
    }
    const action = fc.oneof(
      fc.record({ does: fc.constant('join' as const), kind: fc.nat(3) }),
      fc.record({ does: fc.constant('leave' as const), which: fc.nat(30) }),
      fc.record({ does: fc.constant('give back' as const), which: fc.nat(30) }),
    );
    fc.assert(
      fc.property(fc.array(action, { maxLength: 60 }), fc.nat(3), (actions, size) => {
        const held: Wish[] = [];
        const waits = new Map<Wish, AbortController>();
        const of = (kind: number): number => held.filter((one) => one.kind === kind).length;
        const precedes = (one: Wish, earlier: Wish): boolean => of(one.kind) < of(earlier.kind);
        const expected = (): Wish =>
          [...waits.keys()].reduce((first, one) => (precedes(one, first) ? one : first));
        const line = createWaitingLine(
          (wish: Wish) => {
            assert.equal(wish, expected());
            if (held.length >= size) return null;
            waits.delete(wish);
            held.push(wish);
            return wish;
          },
          { kind: ({ kind }) => String(kind), precedes },
        );
        for (const [id, one] of actions.entries()) {
          if (one.does === 'join') {
            const [wish, controller] = [{ kind: one.kind, id }, new AbortController()];
            waits.set(wish, controller);
            line.join(wish, controller.signal).catch(() => undefined);
          } else if (one.does === 'leave') {
            const [wish, controller] = [...waits][one.which] ?? [];
            if (wish === undefined) continue;
            waits.delete(wish);
            controller?.abort(new Error('enough'));
          } else if (held.splice(one.which, 1).length > 0) line.serve();
          assert.equal(line.length(), waits.size);
        }
      }),
    );
  });

  test('looks at one of each kind for a place, however many wait', () => {
    let looks = 0;
    const line = createWaitingLine((): true | null => null, {
      kind: (name: string) => name[0]!,
      precedes: () => {
        looks += 1;
        return false;
      },
    });
    for (let n = 0; n < 10_000; n++)
      line.join(`${'abc'[n % 3]}${n}`, new AbortController().signal).catch(() => undefined);
    assert.ok(looks <= 2 * 10_000, `${looks} looks`);
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
          if (aborts)
            queueMicrotask(() => {
              controller.abort(new Error('enough'));
            });
          await place.then(giveBack, () => undefined);
        });
        await Promise.all(all);
        assert.equal(room.taken, 0);
        assert.equal(room.line.length(), 0);
      }),
    );
  });
});
