import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { Miscount } from '../../src/generation/generation-service.js';
import { createEventReader } from '../../src/generation/sglang/answer-events.js';
import type { StreamState } from '../../src/generation/wire/stream-assembler.js';
import { assemble, isCounted, startStream } from '../../src/generation/wire/stream-assembler.js';
import { describeError } from '../../src/platform/errors.js';
import type { Event } from './fake-sglang.js';
import { PLAIN, recorded, tokensIn } from './fake-sglang.js';

describe('events that are repeated, lost or late', () => {
  /** What is handed on of them. */
  function handedOn(events: readonly Event[]): { ids: number[]; error: unknown } {
    const site = { replica: 'r', call: 'c' };
    const request = { ...PLAIN, max_tokens: 1000 };
    const read = createEventReader(request, site);
    let state: StreamState = startStream({ ...request, site });
    const ids: number[] = [];
    const waiting: number[] = [];
    try {
      for (const event of events) {
        const step = assemble(state, read(event));
        ({ state } = step);
        waiting.push(...(step.delta?.token_ids ?? []));
        if (isCounted(state)) ids.push(...waiting.splice(0));
      }
    } catch (error) {
      return { ids, error };
    }
    return { ids, error: null };
  }

  for (const [number, what] of [
    ['03', 'all tokens so far'],
    ['15', 'new tokens alone'],
  ] as const)
    test(`of ${what} are a miscount, or harmless: each token handed on is where it was sampled`, () => {
      const { events } = recorded(number);
      const { token_ids } = tokensIn(events);
      assert.deepEqual(handedOn(events), { ids: token_ids, error: null });
      const at = fc.integer({ min: 0, max: events.length - 1 });
      let noticed = 0;
      const meddling = fc.record({
        how: fc.constantFrom('repeats', 'loses', 'delays', 'moves'),
        from: at,
        to: at,
      });
      fc.assert(
        fc.property(meddling, ({ how, from, to }) => {
          const one = events[from]!;
          const rest = events.toSpliced(from, 1);
          const meddled = {
            repeats: events.toSpliced(from, 0, one),
            loses: rest,
            delays: rest.toSpliced(from + 1, 0, one),
            moves: rest.toSpliced(to, 0, one),
          }[how];
          const { ids, error } = handedOn(meddled);
          assert.deepEqual(ids, token_ids.slice(0, ids.length));
          if (error === null) return;
          noticed += 1;
          // Behind its end there is nothing.
          const isKnown = error instanceof Miscount || /finish_reason/.test(describeError(error));
          assert.ok(isKnown, describeError(error));
        }),
      );
      assert.ok(noticed > 0);
    });
});
