import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Semantics } from '../../src/model/semantics.js';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import {
  checkPromptStillFits,
  lengthLimit,
  limitObservation,
  naturalEnd,
  nextStep,
  roomFor,
} from '../../src/model/turn/stop-rules.js';
import { SETTINGS, author, foldOf, wholeTurn } from '../fakes/journal-lines.js';

const a = author('a');
const b = author('b');
const SEMANTICS: readonly Semantics[] = Semantics.options;

/** A prompt of two tokens, then turns of two. */
const turns = (count: number, semantics: Semantics = 'standard'): JournalLine[] => [
  a.claim(),
  a.start({ settings: { ...SETTINGS, semantics } }),
  ...Array.from({ length: count }, (_, turn) => wholeTurn(a, { turn })).flat(),
];

describe('limits that a claim brings', () => {
  test('replace the settings of the start; the others stay', () => {
    const { start, settings_in_force, limits } = foldOf([
      ...turns(1),
      b.claim({ limits: { max_seq_len: 50, max_new_tokens: 9 } }),
    ]);
    assert.deepEqual(limits, { max_seq_len: 50, max_new_tokens: 9 });
    assert.deepEqual(start?.settings, SETTINGS);
    assert.deepEqual(settings_in_force, {
      ...SETTINGS,
      max_seq_len: 50,
      generation: { ...SETTINGS.generation, max_new_tokens: 9 },
    });
  });

  test('stay in force under later claims, which may change them again', () => {
    const lines = [...turns(1), b.claim({ limits: { max_seq_len: 50 } }), a.claim()];
    assert.equal(foldOf(lines).settings_in_force?.max_seq_len, 50);
    lines.push(
      b.claim({ limits: { max_rollout_turns: 4 } }),
      a.claim({ limits: { max_seq_len: 70 } }),
    );
    assert.deepEqual(foldOf(lines).limits, { max_seq_len: 70, max_rollout_turns: 4 });
    assert.equal(foldOf(lines).settings_in_force?.max_rollout_turns, 4);
  });

  test('that comes before the start are in force from the start on', () => {
    const lines = [a.claim({ limits: { max_rollout_turns: 0 } }), a.start()];
    assert.deepEqual(nextStep(foldOf(lines)), { ended: 'max_turns' });
  });

  test('are read back from the file as they were written', () => {
    const line = a.claim({ limits: { max_new_tokens: 5 } });
    assert.deepEqual(parseLine(JSON.stringify(line)), line);
    assert.deepEqual(parseLine(JSON.stringify(a.claim())), a.claim());
  });

  test('change nothing of a rollout that has ended', () => {
    const lines = [...turns(1), a.end()];
    const before = foldOf(lines);
    const { settings_in_force, limits } = foldOf([
      ...lines,
      b.claim({ limits: { max_seq_len: 1 } }),
    ]);
    assert.deepEqual([settings_in_force, limits], [before.settings_in_force, before.limits]);
  });
});

describe('a limit below what is already played', () => {
  for (const semantics of SEMANTICS) {
    const played = turns(3, semantics);
    const under = (limits: object, more: JournalLine[] = []) =>
      foldOf([...played, ...more, b.claim({ limits })]);

    test(`of turns ends the rollout as max_turns (${semantics})`, () => {
      assert.deepEqual(nextStep(under({ max_rollout_turns: 2 })), { ended: 'max_turns' });
      assert.deepEqual(nextStep(under({ max_rollout_turns: 3 })), { ended: 'max_turns' });
      assert.equal(nextStep(under({ max_rollout_turns: 4 })), 'generate');
    });

    test(`of tokens ends the rollout as truncated (${semantics})`, () => {
      assert.deepEqual(nextStep(under({ max_seq_len: 5 })), { ended: 'truncated' });
      assert.deepEqual(nextStep(under({ max_seq_len: 8 })), { ended: 'truncated' });
      assert.equal(nextStep(under({ max_seq_len: 9 })), 'generate');
      assert.equal(roomFor(under({ max_seq_len: 9 })), 1);
    });

    test(`lets a generated turn be answered, and its observation is no error (${semantics})`, () => {
      const open = [a.chunk({ turn: 3 }), a.generation({ turn: 3 })];
      const trajectory = under({ max_seq_len: 5, max_rollout_turns: 1 }, open);
      assert.equal(nextStep(trajectory), 'step');
      const limit = { semantics, max_seq_len: lengthLimit(trajectory) };
      assert.deepEqual(
        limitObservation([1, 2], {
          ...limit,
          input_tokens: 8,
          generated_tokens: 1,
          finish_reason: 'stop',
        }),
        { token_ids: [], truncated: true },
      );
    });
  }

  describe('of tokens where no turn was played', () => {
    const under = (semantics: Semantics, more: JournalLine[] = []) =>
      foldOf([...turns(0, semantics), ...more, b.claim({ limits: { max_seq_len: 2 } })]);

    test('is no valid end under any semantics', () => {
      for (const semantics of SEMANTICS) {
        assert.equal(nextStep(under(semantics)), 'generate');
        assert.equal(naturalEnd(under(semantics)), null);
      }
    });

    test('is the fault PromptTooLong under standard, and under the others a turn without room', () => {
      assert.throws(() => {
        checkPromptStillFits(under('standard'));
      }, /PromptTooLong: the prompt has 2 tokens, expected fewer than max_seq_len 2/);
      for (const semantics of ['nemo-rl-sync', 'nemo-rl-async', 'nemo-rl'] as const) {
        checkPromptStillFits(under(semantics));
        assert.equal(roomFor(under(semantics)), 0);
      }
    });

    test('keeps a generation that had begun', () => {
      for (const semantics of SEMANTICS) {
        const trajectory = under(semantics, [a.chunk({ turn: 0 })]);
        checkPromptStillFits(trajectory);
        assert.equal(nextStep(trajectory), 'generate');
        assert.ok(roomFor(trajectory) <= 0);
      }
    });
  });

  test('of tokens gives a row that says so', () => {
    const trajectory = foldOf([
      ...turns(3),
      b.claim({ limits: { max_seq_len: 5 } }),
      b.end({ stop_reason: 'truncated' }),
    ]);
    const row = toRow({
      sample: { message_log: [], task_name: 'task' },
      ref: { batch_id: 'batch', row: 0, repeat: 0 },
      semantics: 'standard',
      trajectory,
      outcome: outcomeOf(trajectory, { stop_reason: 'cancelled' }),
    });
    assert.deepEqual([row.stop_reason, row.truncated, row.turn_count], ['truncated', true, 3]);
    assert.ok(!('failure' in row));
  });
});
