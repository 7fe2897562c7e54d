/** What a trainer needs beside the log: where the prompt ends, what each turn was worth, what is not to be trained on. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine, RolloutSettings } from '../../src/model/journal.js';
import { outcomeOf } from '../../src/model/journal/outcome.js';
import type { Row } from '../../src/model/results/row.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { SETTINGS, author, foldOf, wholeTurn } from '../fakes/journal-lines.js';

const a = author('a');
const PROMPT = [
  { role: 'system', content: 'be brief', token_ids: [901, 902, 903] },
  { role: 'user', content: 'go', token_ids: [904] },
];

interface Closed {
  row: Row;
  overlong: boolean;
}

function closed(
  lines: JournalLine[],
  { overlong = 'keep' }: Partial<Pick<RolloutSettings, 'overlong'>> = {},
): Closed {
  const start = a.start({ prompt: PROMPT, settings: { ...SETTINGS, overlong } });
  const trajectory = foldOf([a.claim(), start, ...lines]);
  const row = toRow({
    sample: { message_log: [{ role: 'user', content: 'go' }], task_name: 'task' },
    ref: { batch_id: 'batch', row: 0, repeat: 0 },
    semantics: 'standard',
    trajectory,
    outcome: outcomeOf(trajectory, { stop_reason: 'cancelled' }),
  });
  return { row, overlong: toSummary(row, trajectory).overlong };
}

/** The engine ended it at its limit; its environment graded what there was. */
const cut = [
  a.chunk({ token_ids: [1, 2] }),
  a.generation({ token_count: 2, finish_reason: 'length' }),
  a.observation({ reward: 0.5, terminated: true, truncated: true }),
];
const whole = wholeTurn(a, { ids: [1], reward: 1, terminated: true });

describe('a row', () => {
  test('says where the prompt ends, and of each whole turn its reward and how it was finished', () => {
    const { row } = closed([
      ...wholeTurn(a, { ids: [1, 2], reward: -0.25 }),
      a.chunk({ turn: 1, token_ids: [3] }),
      a.generation({ turn: 1, finish_reason: 'length' }),
      a.observation({ turn: 1, reward: 2, truncated: true }),
      a.end({ stop_reason: 'truncated' }),
    ]);
    assert.deepEqual(
      [row.prompt_tokens, row.turn_rewards, row.finish_reasons],
      [4, [-0.25, 2], ['stop', 'length']],
    );
    const ids = row.message_log.flatMap(({ token_ids }) => token_ids);
    assert.equal(ids[row.prompt_tokens], 1, 'the first generated id');
  });

  test('of a rollout that failed has the whole turns alone', () => {
    const end = a.end({ stop_reason: 'failed', failure: { type: 'T', message: 'm', turn: 1 } });
    const { row } = closed([...wholeTurn(a, { reward: 1 }), a.chunk({ turn: 1 }), end]);
    assert.deepEqual([row.turn_rewards, row.finish_reasons], [[1], ['stop']]);
  });
});

describe('a rollout that was truncated', () => {
  test('is kept as it is by default', () => {
    const { row, overlong } = closed(cut);
    assert.deepEqual([row['loss_multiplier'], row.stop_reason, overlong], [1, 'terminated', false]);
  });

  test('is kept with a loss multiplier of 0, where the request masks it', () => {
    const { row, overlong } = closed(cut, { overlong: 'mask' });
    assert.deepEqual([row['loss_multiplier'], row.stop_reason, overlong], [0, 'terminated', true]);
    assert.ok(!('failure' in row));
    // Lengths are of what was sampled, not of what trains (huggingface/trl#3476).
    assert.deepEqual([row.train_mask, row.assistant_tokens], [[], 2]);
    assert.deepEqual(closed(cut).row.train_mask, [{ start: 4, end: 6 }]);
  });

  test('is a failure, where the request drops it, though its environment graded it', () => {
    const { row, overlong } = closed(cut, { overlong: 'drop' });
    assert.deepEqual([row.stop_reason, row.truncated, overlong], ['failed', true, true]);
    assert.equal(row.failure?.type, 'Overlong');
  });

  for (const overlong of ['mask', 'drop'] as const) {
    test(`is nothing to ${overlong} where it was not truncated`, () => {
      const closing = closed(whole, { overlong });
      assert.deepEqual(
        [closing.row['loss_multiplier'], closing.row.stop_reason, closing.overlong],
        [1, 'terminated', false],
      );
    });
  }
});
