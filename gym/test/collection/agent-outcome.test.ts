import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { absenceOf, agentOutcomeOf } from '../../collection/follow/agent-outcome.js';
import type { JournalLine } from '../../../src/model/journal.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import { author, foldOf, gymLife } from '../../../test/fakes/journal-lines.js';

const by = author('a');
const extra_env_info = {
  agent: 'ag',
  task_index: 0,
  rollout_index: 0,
  attempt_index: 1,
  row: '{}',
};
const played = (...lines: JournalLine[]): Trajectory =>
  foldOf([by.claim(), by.start({ plays: 'agent', prompt: [], extra_env_info }), ...lines]);

const error = by.fault({
  ...{ type: 'EnvironmentUnavailable', message: 'POST /run answered 500' },
  ...{ failure_class: 'agent_run_error', status: 500 },
});
const died = (life: number): JournalLine[] => [by.life({ life }), by.exit({ life, code: 1 })];
const failed = by.end({ stop_reason: 'failed' });

describe('a row that failed', () => {
  test('has class, status and message of its last run, and the index of that', () => {
    const outcome = agentOutcomeOf(played(...died(1), error, ...died(2), error, failed));
    assert.ok(outcome?.kind === 'failure');
    const { failure_class, status, message, attempt, text } = outcome;
    assert.deepEqual(
      [failure_class, status, message, attempt, text],
      ['agent_run_error', 500, error.message, 2, null],
    );
  });

  test('has what its agent says of the last run, whatever was wrong with the one before', () => {
    const said = gymLife(by, { life: 2, code: 1, attempt: 2, failure_class: 'judge', text: '{}' });
    const outcome = agentOutcomeOf(played(...died(1), error, ...said, failed));
    assert.ok(outcome?.kind === 'failure');
    const { failure_class, status, text } = outcome;
    assert.deepEqual([failure_class, status, text], ['judge', null, '{}']);
  });

  test('before any run, since nobody knows its agent, has the class of that', () => {
    const unknown = by.fault({ type: 'EnvironmentRejected', failure_class: 'agent_run_error' });
    const outcome = agentOutcomeOf(played(unknown, failed));
    assert.ok(outcome?.kind === 'failure');
    assert.deepEqual([outcome.failure_class, outcome.attempt], ['agent_run_error', 1]);
  });
});

test('a row that a limit of its calls ended, without an answer of its agent, is a failure', () => {
  const cut = [by.life(), by.refused(), by.exit({ code: null, signal: 'SIGKILL' })];
  const ended = played(...cut, by.observation(), by.end({ stop_reason: 'max_turns' }));
  const outcome = agentOutcomeOf(ended);
  assert.ok(outcome?.kind === 'failure');
  assert.deepEqual([outcome.failure_class, outcome.text], ['agent_request_failed', null]);
});

test('a row waits for its agent where that is not there or takes no runs, and neither behind a run that failed nor for the policy', () => {
  const away = by.fault({ type: 'EnvironmentUnavailable', message: 'refused' });
  assert.equal(absenceOf(played(away)), 'refused');
  const full = { ...error, status: 503, uncounted: true as const };
  assert.equal(absenceOf(played(by.life(), full)), error.message);
  assert.equal(absenceOf(played(away, by.life())), null);
  assert.equal(absenceOf(played(...died(1), error)), null);
  assert.equal(absenceOf(played(by.life(), by.call(), by.fault())), null);
});
