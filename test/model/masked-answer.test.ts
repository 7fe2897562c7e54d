import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { agentOutcomeOf } from '../../gym/collection/follow/agent-outcome.js';
import { lineText, parseLine } from '../../src/model/journal.js';
import { isUntrained, outcomeOf } from '../../src/model/journal/outcome.js';
import { toRow } from '../../src/model/results/row.js';
import { toSummary } from '../../src/model/results/summary.js';
import { Sample } from '../../src/model/sample.js';
import { SETTINGS, author, foldOf, gymLife } from '../fakes/journal-lines.js';

const a = author('a');

describe('an answer with mask_sample', () => {
  const masked = { attempt: 1, reward: 1, untrained: 'mask_sample' };
  const ended = [
    a.observation({ message: null, token_ids: [], reward: 1, terminated: true }),
    a.end({ stop_reason: 'terminated' }),
  ];
  const extra_env_info = { agent: 'simple_agent', task_index: 3, rollout_index: 1, row: '{}' };
  const start = a.start({ plays: 'agent', prompt: [], settings: SETTINGS, extra_env_info });
  const trajectory = foldOf([a.claim(), start, ...gymLife(a, masked), ...ended]);

  test('is a row that is not trained on, whose reward counts', () => {
    const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
    const sample = Sample.parse({ message_log: [], task_name: 'gym', loss_multiplier: 0.5 });
    const row = toRow({
      sample,
      ref: { batch_id: 'b', row: 0, repeat: 0 },
      semantics: 'standard',
      trajectory,
      outcome,
    });
    assert.deepEqual([row.failure, row.loss_multiplier, row.total_reward], [undefined, 0, 1]);
    const { agent, reward } = toSummary(row, trajectory);
    assert.deepEqual([agent?.masked, agent?.task_index, reward], [true, 3, 1]);
    assert.ok(isUntrained(trajectory), 'also for the filter of a stream');
  });

  test('and without tokens is a row all the same (NVIDIA-NeMo/RL#3201)', () => {
    const outcome = outcomeOf(trajectory, { stop_reason: 'stopped' });
    const sample = Sample.parse({ message_log: [], task_name: 'gym' });
    const row = toRow({
      sample,
      ref: { batch_id: 'b', row: 0, repeat: 0 },
      semantics: 'nemo-rl-async',
      trajectory,
      outcome,
    });
    assert.deepEqual([row.message_log, row.loss_multiplier], [[], 0]);
    assert.match(
      row.untokenized ?? '',
      /^expected calls of the agent that this policy answered, got none/,
    );
  });

  test('is a result of its collection as any', () => {
    assert.equal(agentOutcomeOf(trajectory)?.kind, 'result');
  });

  test('is read back from its line with what was made of its reward', () => {
    const shaping = {
      reward: 1,
      effort: { low: false, length: 3 },
      penalties: { unwanted_token: true },
    };
    const line = a.result({ ...masked, shaping });
    assert.deepEqual(parseLine(lineText(line).trimEnd()), line);
  });
});
