import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { LineOf } from '../../src/model/journal.js';
import {
  endOfTokens,
  findStop,
  firstCountThat,
  knownEos,
  shownText,
  spansTooManyVersions,
  withoutSpecials,
} from '../../src/sampling/seam.js';
import { SETTINGS, author, foldOf } from '../fakes/journal-lines.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

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

  test('that are none of that continue', () => {
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
    assert.equal(trajectory.observations.length, 4);
    assert.deepEqual(knownEos(trajectory), new Set([2]));
  });
});

describe('a stop string', () => {
  const findIn = (text: string, stop_strings: string[]) => findStop(text, { stop_strings });

  test('that ends before any end may count is passed over, one that ends behind is found', () => {
    const stop_strings = ['</a>'];
    assert.deepEqual(findStop('</a></a>', { stop_strings, behind: 4 }), { stop: '</a>', end: 8 });
    assert.deepEqual(findStop('</a>', { stop_strings, behind: 3 }), { stop: '</a>', end: 4 });
    assert.equal(findStop('</a>', { stop_strings, behind: 4 }), null);
  });

  test('is found with its end; of several the first in the request’s order', () => {
    assert.deepEqual(findIn('left</a> right', ['</b>', '</a>']), { stop: '</a>', end: 8 });
    assert.deepEqual(findIn('ab', ['b', 'ab']), { stop: 'b', end: 2 });
    assert.equal(findIn('left', ['</a>']), null);
    assert.equal(findIn('left', []), null);
  });

  test('is cut at the token that completes it, however the text is cut into tokens', async () => {
    const piece = fc.stringMatching(/^[<a/b>]{1,4}$/);
    const stops = fc.array(fc.stringMatching(/^[<a/b>]{1,3}$/), { minLength: 1, maxLength: 3 });
    await fc.assert(
      fc.asyncProperty(fc.array(piece, { maxLength: 40 }), stops, async (tokens, stop_strings) => {
        const textOf = (count: number): string => tokens.slice(0, count).join('');
        const holds = (count: number): boolean =>
          findStop(textOf(count), { stop_strings }) !== null;
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

describe('a turn that continues under other weights', () => {
  const open = openAnswer(foldOf([a.claim(), a.start(), a.chunk({ policy_version: '1' })]));
  const spans = (max_version_span: number | null, next: string | null) =>
    spansTooManyVersions(open, { settings: { ...SETTINGS, max_version_span }, next: [next] });

  test('may span as many versions as the batch allows', () => {
    assert.equal(spans(null, '2'), false);
    assert.equal(spans(2, '2'), false);
    assert.equal(spans(1, '2'), true);
    assert.equal(spans(1, '1'), false);
  });

  test('that has no tokens spans none', () => {
    const fresh = openAnswer(foldOf([a.claim(), a.start()]));
    assert.equal(
      spansTooManyVersions(fresh, { settings: { ...SETTINGS, max_version_span: 1 }, next: ['5'] }),
      false,
    );
  });
});

test('content keeps no special token', () => {
  assert.equal(withoutSpecials('<|x|>a<|x|>b', ['<|x|>']), 'ab');
});

describe('the text that an engine has sent for some tokens', () => {
  const textOf = (tokens: readonly (readonly number[])[]) => (count: number) =>
    Promise.resolve(
      new TextDecoder('utf-8', { ignoreBOM: true }).decode(
        Uint8Array.from(tokens.slice(0, count).flat()),
      ),
    );
  const bytes = (text: string): number[] => [...Buffer.from(text)];

  test('ends before a character that is not whole, and before what shares a token with it', async () => {
    const [first = 0, ...rest] = bytes('漢');
    assert.equal(await shownText(textOf([bytes('a'), [first]]), 2), 'a');
    assert.equal(await shownText(textOf([bytes('a'), [...bytes('b'), first]]), 2), 'a');
    assert.equal(await shownText(textOf([bytes('a'), [...bytes('b'), first], rest]), 3), 'ab漢');
    assert.equal(await shownText(textOf([[first]]), 1), '');
  });

  test('is what a decoder that goes token by token has given out, whatever the bytes', () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.array(fc.constantFrom(0x61, 0x20, 0xe6, 0xbc, 0xa2, 0xff, 0xc3), {
            minLength: 1,
            maxLength: 3,
          }),
          { maxLength: 12 },
        ),
        async (tokens) => {
          let given = '';
          for (let count = 1; count <= tokens.length; count++) {
            const text = await textOf(tokens)(count);
            if (!text.endsWith('\uFFFD')) given = text;
          }
          assert.equal(await shownText(textOf(tokens), tokens.length), given);
        },
      ),
    ));

  test('takes no longer where it is full of what is no character', async () => {
    const run = '\uFFFD'.repeat(100_000);
    const began = process.cpuUsage().user;
    assert.equal(
      await shownText((count) => Promise.resolve(count > 1 ? `${run}x\uFFFD` : `${run}x`), 2),
      `${run}x`,
    );
    const took_s = (process.cpuUsage().user - began) / 1e6;
    assert.ok(took_s < 2, `${took_s} s of processor time`);
  });

  test('is asked for once where it ends with a character, and seldom where it does not', async () => {
    const asked: number[] = [];
    const tokens = Array.from({ length: 1000 }, () => [0xff]);
    const counting = (count: number): Promise<string> => {
      asked.push(count);
      return textOf([bytes('a'), ...tokens])(count);
    };
    assert.equal(await shownText(counting, 1), 'a');
    assert.deepEqual(asked, [1]);
    assert.equal(await shownText(counting, 1001), 'a');
    assert.ok(asked.length < 20, `asked ${asked.length} times`);
  });
});
