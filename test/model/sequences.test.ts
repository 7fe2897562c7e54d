/** The sequences of a rollout's calls: which is main, and which train. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import type { CallRules } from '../../src/model/results/call-paths.js';
import { sequencesOf } from '../../src/model/results/sequences.js';
import { author, foldOf, logprobOf, wholeCall } from '../fakes/journal-lines.js';

const a = author('a');
const begin = [a.claim(), a.start({ plays: 'agent', prompt: [] }), a.life()];
type Given = Parameters<typeof wholeCall>[1];

/** A whole call that its life was given whole. */
const read = (given: Given): JournalLine[] => [
  ...wholeCall(a, given),
  a.served({ turn: given?.turn ?? 0, life: given?.life ?? 1 }),
];

const RULES: CallRules = { train_resampled: 'winner', train_separate: 'all' };

/** By sequence: its calls, and why it does not train. */
function shown(lines: JournalLine[], rules: Partial<CallRules> = {}): string[] {
  const made = sequencesOf(foldOf([...begin, ...lines]), { ...RULES, ...rules });
  return (made?.sequences ?? []).map(
    ({ calls, why, parent, fork }) =>
      `${calls.join()}${parent === null ? '' : ` @${parent}:${fork}`}${why === undefined ? '' : ` ${why}`}`,
  );
}

/** Its prompt has 2 ids, its answer 3. */
const FIRST = read({ turn: 0, cause: 'first', prompt_ids: [1, 2], ids: [3, 4, 5] });
const next = (turn: number, given: { parent: number } & Given) =>
  read({ turn, prompt_ids: [10 * turn], ids: [10 * turn + 1], ...given });

describe('the sequences of calls', () => {
  test('are none without a call, and one of a conversation', () => {
    assert.equal(sequencesOf(foldOf(begin)), null);
    assert.deepEqual(shown([...FIRST, ...next(1, { parent: 0 }), ...next(2, { parent: 1 })]), [
      '0,1,2',
    ]);
  });

  test('begin with the longest, and continue ids of those before', () => {
    const branch = { cause: 'edited', fork: { call: 1, ids: 5 } } as const;
    assert.deepEqual(
      shown([
        ...FIRST,
        ...next(1, { parent: 0 }),
        ...next(2, { parent: 0, ...branch, ids: [21, 22] }),
      ]),
      ['0,2', '1 @0:5'],
    );
    // Of equal ones the later.
    assert.deepEqual(
      shown([...FIRST, ...next(1, { parent: 0 }), ...next(2, { parent: 0, ...branch })]),
      ['0,2', '1 @0:5'],
    );
  });

  test('have a compaction in the main one, which counts what it continues', () => {
    const helper = read({
      turn: 2,
      parent: null,
      cause: 'separate',
      prompt_ids: [20],
      ids: [21, 22],
    });
    const played = [...FIRST, ...next(1, { parent: 0 }), ...helper];
    assert.deepEqual(shown(played), ['0,1', '2']);
    const after = read({
      turn: 3,
      parent: 1,
      message: 0,
      cause: 'shortened',
      prompt_ids: [30],
      ids: [31],
    });
    assert.deepEqual(shown([...played, ...after]), ['3', '0,1', '2']);
  });

  test('have a conversation that was edited in the main one, but no attempt at another answer', () => {
    const edited = (news: object[]) =>
      read({
        turn: 3,
        parent: 0,
        cause: 'edited',
        fork: { call: 0, ids: 5 },
        prompt_ids: [30],
        ids: [31],
        news: news as never,
      });
    const long = [...FIRST, ...next(1, { parent: 0 }), ...next(2, { parent: 1 })];
    const cleared = [
      { role: 'tool', content: '(cleared)' },
      { role: 'assistant', content: 'said' },
      { role: 'user', content: 'on' },
    ];
    assert.deepEqual(shown([...long, ...edited(cleared)]), ['0,3', '1,2 @0:5']);
    assert.deepEqual(shown([...long, ...edited(cleared.slice(2))]), ['0,1,2', '3 @0:5']);
  });

  test('keep messages, ids and logprobs together', () => {
    const made = sequencesOf(
      foldOf([
        a.claim(),
        a.start({ plays: 'agent', prompt: [] }),
        a.life(),
        a.material({ hash: 's', system: 'be brief' }),
        ...read({ turn: 0, cause: 'first', system: 's', prompt_ids: [1, 2], ids: [3] }),
        ...next(1, {
          parent: 0,
          system: 's',
          news: [
            { role: 'tool', content: 'a' },
            { role: 'user', content: 'b' },
          ],
        }),
      ]),
    );
    assert.deepEqual(made?.sequences[0]?.message_log, [
      { role: 'system', content: 'be brief', token_ids: [] },
      { role: 'user', content: 'go', token_ids: [1, 2] },
      { role: 'assistant', content: 'said', token_ids: [3], generation_logprobs: [logprobOf(3)] },
      { role: 'tool', content: 'a', token_ids: [] },
      { role: 'user', content: 'b', token_ids: [10] },
      { role: 'assistant', content: 'said', token_ids: [11], generation_logprobs: [logprobOf(11)] },
    ]);
    assert.deepEqual(made.all_tokens, { sampled: 2, trained: 2, sequences: 1 });
  });
});

describe('what does not train', () => {
  const same = (turn: number, ids = [3, 4, turn]) =>
    read({
      turn,
      parent: 0,
      message: 1,
      cause: 'resampled',
      fork: { call: 0, ids: 2 },
      prompt_ids: [],
      ids,
    });

  test('is what nobody has read, an unfinished answer too', () => {
    const unread = wholeCall(a, { turn: 1, parent: 0, prompt_ids: [10], ids: [11] });
    assert.deepEqual(shown([...FIRST, ...unread]), ['0', '1 @0:5 unread']);
    const unfinished = [a.call({ turn: 1, parent: 0 }), a.chunk({ turn: 1 })];
    assert.deepEqual(shown([...FIRST, ...unfinished]), ['0', '1 @0:5 unread']);
    const empty = [a.call({ turn: 1, parent: 0 })];
    assert.deepEqual(shown([...FIRST, ...empty]), ['0']);
    // An answer that a call continues was read.
    assert.deepEqual(shown([...FIRST, ...unread, ...next(2, { parent: 1 })]), ['0,1,2']);
  });

  test('is what the last life never asked for', () => {
    const again = [a.exit(), a.life({ life: 2 }), a.served({ life: 2 })];
    assert.deepEqual(shown([...FIRST, ...next(1, { parent: 0 }), ...again]), [
      '0',
      '1 @0:5 abandoned',
    ]);
    const fresh = [
      a.exit(),
      a.life({ life: 2 }),
      ...read({
        turn: 2,
        life: 2,
        parent: 0,
        message: 1,
        cause: 'resampled',
        fork: { call: 0, ids: 2 },
        prompt_ids: [],
        ids: [7],
      }),
    ];
    assert.deepEqual(shown([...FIRST, ...next(1, { parent: 0 }), ...fresh]), [
      '2',
      '0,1 @0:2 abandoned',
    ]);
  });

  test('are candidates that lost, by the rule of the environment', () => {
    const three = [...FIRST, ...same(1), ...same(2), ...next(3, { parent: 1, ids: [31, 32] })];
    assert.deepEqual(shown(three), ['1,3', '0 @0:2 resampled', '2 @0:2 resampled']);
    assert.deepEqual(shown(three, { train_resampled: 'all' }), ['1,3', '0 @0:2', '2 @0:2']);
    // Nobody has won: all train, or none.
    const open = [...FIRST, ...same(1)];
    assert.deepEqual(shown(open), ['1', '0 @0:2']);
    assert.deepEqual(shown(open, { train_resampled: 'none' }), ['1 resampled', '0 @0:2 resampled']);
  });

  test('are helpers, where the environment says so', () => {
    const helpers = [
      ...FIRST,
      ...read({ turn: 1, cause: 'separate', prompt_ids: [10], ids: [11] }),
      ...read({ turn: 2, cause: 'separate', tools: 't', prompt_ids: [20], ids: [21] }),
      ...next(3, { parent: 2, tools: 't', ids: [31] }),
    ];
    assert.deepEqual(shown(helpers), ['0', '1', '2,3']);
    assert.deepEqual(shown(helpers, { train_separate: 'with_tools' }), ['0', '2,3', '1 separate']);
    assert.deepEqual(shown(helpers, { train_separate: 'none' }), [
      '0',
      '1 separate',
      '2,3 separate',
    ]);
  });

  test('is all of a rollout whose agent has read nothing', () => {
    const lines = wholeCall(a, { cause: 'first', prompt_ids: [1], ids: [2] });
    assert.deepEqual(shown(lines), ['0 unread']);
  });
});
