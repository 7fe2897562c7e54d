/** An answer whose room changes while it streams. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Delta } from '../../src/generation/generation-service.js';
import { keptToRoom } from '../../src/sampling/kept-to-room.js';
import { SETTINGS } from '../fakes/journal-lines.js';

const settings = { ...SETTINGS, generation: { ...SETTINGS.generation } };

const deltaOf = (token_ids: number[], finish?: Delta['finish']): Delta => ({
  token_ids,
  logprobs: token_ids.map(() => -1),
  text: token_ids.map(String).join(' '),
  ...(finish !== undefined && { finish }),
});

/** The stream of an engine, delta by delta, with the room at each. */
function streamed(
  deltas: readonly { delta: Delta; room: number }[],
  { asked, offset = 0, generation = {} }: { asked: number; offset?: number; generation?: object },
): { token_ids: number[]; finish: Delta['finish'] | null; exit: string | null } {
  let room = asked;
  const inRoom = keptToRoom(
    { request: { max_tokens: asked - offset }, offset },
    {
      room: () => room,
      settings: { ...settings, generation: { ...settings.generation, ...generation } },
    },
  );
  const seen = {
    token_ids: [] as number[],
    finish: null as Delta['finish'] | null,
    exit: null as string | null,
  };
  for (const step of deltas) {
    ({ room } = step);
    const { kept, exit } = inRoom(step.delta);
    seen.token_ids.push(...(kept?.token_ids ?? []));
    assert.equal(kept?.logprobs.length, kept?.token_ids.length);
    seen.finish ??= kept?.finish ?? null;
    seen.exit ??= exit;
  }
  return seen;
}

const LENGTH = { finish_reason: 'length', stop_reason: null } as const;
const STOP = { finish_reason: 'stop', stop_reason: null } as const;

describe('the room of an answer', () => {
  test('that stays as it is changes nothing', () => {
    const deltas = [deltaOf([1, 2]), deltaOf([3, 4], LENGTH)].map((delta) => ({ delta, room: 4 }));
    assert.deepEqual(streamed(deltas, { asked: 4 }), {
      token_ids: [1, 2, 3, 4],
      finish: LENGTH,
      exit: null,
    });
  });

  test('that shrinks ends it at that token, in the middle of a delta too', () => {
    const deltas = [
      { delta: deltaOf([1, 2]), room: 9 },
      { delta: deltaOf([3, 4, 5]), room: 4 },
      { delta: deltaOf([6]), room: 4 },
    ];
    assert.deepEqual(streamed(deltas, { asked: 9 }), {
      token_ids: [1, 2, 3, 4],
      finish: LENGTH,
      exit: 'moved',
    });
  });

  test('that shrinks below what is there keeps that, and takes no more', () => {
    const deltas = [
      { delta: deltaOf([1, 2, 3]), room: 9 },
      { delta: deltaOf([4]), room: 2 },
    ];
    assert.deepEqual(streamed(deltas, { asked: 9 }), {
      token_ids: [1, 2, 3],
      finish: LENGTH,
      exit: 'moved',
    });
  });

  test('that grows takes the end away for which the engine was asked', () => {
    const deltas = [
      { delta: deltaOf([1, 2]), room: 4 },
      { delta: deltaOf([3, 4], LENGTH), room: 6 },
    ];
    assert.deepEqual(streamed(deltas, { asked: 4 }), {
      token_ids: [1, 2, 3, 4],
      finish: null,
      exit: 'moved',
    });
    const penalty = { presence_penalty: 1 };
    assert.deepEqual(streamed(deltas, { asked: 4, generation: penalty }), {
      token_ids: [1, 2, 3, 4],
      finish: LENGTH,
      exit: null,
    });
  });

  test('leaves an end of the engine’s own as it is', () => {
    for (const room of [2, 3, 9]) {
      const deltas = [{ delta: deltaOf([1, 2], STOP), room }];
      assert.deepEqual(streamed(deltas, { asked: 4 }), {
        token_ids: [1, 2],
        finish: STOP,
        exit: null,
      });
    }
    // An engine that has no room itself ends before it was asked to.
    const early = [{ delta: deltaOf([1, 2], LENGTH), room: 9 }];
    assert.deepEqual(streamed(early, { asked: 4 }).exit, null);
  });

  test('however tokens come and limits change, keeps a prefix, never beyond the smallest room behind it', () => {
    const step = fc.record({ size: fc.nat(4), room: fc.integer({ min: -2, max: 30 }) });
    const property = fc.property(fc.array(step, { maxLength: 12 }), fc.nat(5), (steps, offset) => {
      let next = 0;
      const deltas = steps.map(({ size, room }) => ({
        delta: deltaOf(Array.from({ length: size }, () => next++)),
        room,
      }));
      const asked = offset + 25;
      const { token_ids, finish, exit } = streamed(deltas, { asked, offset });
      assert.deepEqual(
        token_ids,
        Array.from({ length: token_ids.length }, (_, i) => i),
      );
      assert.equal(finish !== null, exit !== null);
      let count = offset;
      const full = deltas.findIndex(({ delta, room }) => {
        count += delta.token_ids.length;
        return room < asked && count >= room;
      });
      if (full < 0) assert.equal(token_ids.length, next);
      else {
        const before = deltas
          .slice(0, full)
          .reduce((sum, one) => sum + one.delta.token_ids.length, 0);
        const most = Math.max(before, (deltas[full]?.room ?? 0) - offset);
        assert.equal(token_ids.length, most);
      }
    });
    fc.assert(property, { numRuns: 500 });
  });
});
