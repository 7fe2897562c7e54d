import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { LineOf } from '../../src/model/journal.js';
import {
  endOfTokens,
  findStop,
  firstCountThat,
  knownEos,
  spansTooManyVersions,
  withoutSpecials,
} from '../../src/model/seam.js';
import { SETTINGS, author, foldOf } from '../fakes/journal-lines.js';

const a = author('a');

describe('tokens before a seam', () => {
  const rules = { stop_token_ids: [7], eos_ids: new Set([9]), room: 3 };

  test('that end in an end of sequence are a whole generation', () => {
    assert.deepEqual(endOfTokens([1, 9], rules), { finish_reason: 'stop', stop_reason: null });
  });

  test('that end in a stop token are a whole generation, named by it, also where its id is 0', () => {
    assert.deepEqual(endOfTokens([1, 7], rules), { finish_reason: 'stop', stop_reason: 7 });
    const zero = { ...rules, stop_token_ids: [0] };
    assert.deepEqual(endOfTokens([0], zero), { finish_reason: 'stop', stop_reason: 0 });
  });

  test('that fill the room are a whole generation of finish length, unless they end by themselves', () => {
    assert.deepEqual(endOfTokens([1, 2, 3], rules), { finish_reason: 'length', stop_reason: null });
    assert.equal(endOfTokens([1, 2, 7], rules)?.finish_reason, 'stop');
  });

  test('that are none of that go on', () => {
    assert.equal(endOfTokens([], rules), null);
    assert.equal(endOfTokens([9, 1], rules), null);
  });
});

describe('the end of sequence', () => {
  test('is what ended an earlier turn without a stop string or stop token', () => {
    const endings: Partial<LineOf<'generation'>>[] = [
      { finish_reason: 'stop', stop_reason: null },
      { finish_reason: 'stop', stop_reason: '</a>' },
      { finish_reason: 'stop', stop_reason: 0 },
      { finish_reason: 'length', stop_reason: null },
    ];
    const turns = endings.flatMap((ending, turn) => [
      a.chunk({ turn, token_ids: [1, turn + 2] }),
      a.generation({ turn, token_count: 2, ...ending }),
      a.observation({ turn }),
    ]);
    const trajectory = foldOf([a.claim(), a.start(), ...turns]);
    assert.equal(trajectory.turns.length, 4);
    assert.deepEqual(knownEos(trajectory), new Set([2]));
  });
});

describe('a stop string', () => {
  test('is found with its end; of several the first in the request’s order', () => {
    assert.deepEqual(findStop('left</a> right', ['</b>', '</a>']), { stop: '</a>', end: 8 });
    assert.deepEqual(findStop('ab', ['b', 'ab']), { stop: 'b', end: 2 });
    assert.equal(findStop('left', ['</a>']), null);
    assert.equal(findStop('left', []), null);
  });

  test('is cut at the token that completes it, however the text is cut into tokens', async () => {
    const piece = fc.stringMatching(/^[<a/b>]{1,4}$/);
    const stops = fc.array(fc.stringMatching(/^[<a/b>]{1,3}$/), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 40 }), stops, async (tokens, stop_strings) => {
        const textOf = (count: number): string => tokens.slice(0, count).join('');
        const holds = (count: number): boolean => findStop(textOf(count), stop_strings) !== null;
        const one_piece = tokens.findIndex((_, i) => holds(i + 1)) + 1;
        fc.pre(one_piece > 0);
        const cut = await firstCountThat((count) => Promise.resolve(holds(count)), {
          from: 0,
          count: tokens.length,
        });
        assert.equal(cut, one_piece);
      }),
    );
  });
});

describe('a turn that goes on under other weights', () => {
  const open = foldOf([a.claim(), a.start(), a.chunk({ policy_version: '1' })]).open;
  const spans = (max_version_span: number | null, next: string | null) =>
    spansTooManyVersions(open, { settings: { ...SETTINGS, max_version_span }, next });

  test('may span as many versions as the batch allows', () => {
    assert.equal(spans(null, '2'), false);
    assert.equal(spans(2, '2'), false);
    assert.equal(spans(1, '2'), true);
    assert.equal(spans(1, '1'), false);
  });

  test('that has no tokens spans none', () => {
    const { open: fresh } = foldOf([a.claim(), a.start()]);
    assert.equal(spansTooManyVersions(fresh, { settings: { ...SETTINGS, max_version_span: 1 }, next: '5' }), false); // prettier-ignore
  });
});

test('content keeps no special token', () => {
  assert.equal(withoutSpecials('<|x|>a<|x|>b', ['<|x|>']), 'ab');
});
