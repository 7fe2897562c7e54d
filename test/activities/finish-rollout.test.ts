import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { FinishRollout } from '../../src/activities/contract.js';
import { Fault } from '../../src/model/faults.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF } from '../fakes/temporary-store.js';

const a = author('');

const ending = (
  stop_reason: FinishRollout['stop_reason'],
  failure: FinishRollout['failure'] = null,
): FinishRollout => ({ rollout: REF, stop_reason, failure });

async function played(
  bench: Bench,
  given: { terminated?: boolean; reward?: number } = {},
): Promise<void> {
  const journal = await bench.store.claim(REF, { activity: 'playTurns' });
  for (const line of wholeTurn(a, { ids: [1, 2], ...given })) await journal.append(entryOf(line));
  await journal.commit();
}

const endOf = async (bench: Bench) => (await bench.elsewhere().readTrajectory(REF)).end;

describe('the end that is written', () => {
  test('is the one that the turns have reached, with the totals', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await played(bench, { terminated: true, reward: 2 });
    assert.deepEqual(await bench.result('finishRollout', ending(null)), {
      result: {
        rollout_id: 'batch/0-0',
        stop_reason: 'terminated',
        turn_count: 1,
        total_reward: 2,
        total_tokens: 3,
      },
      failure: null,
      facts: { task_name: 'task', policy_version: null },
      batch: null,
    });
    const end = await endOf(bench);
    assert.deepEqual(end?.totals, { turn_count: 1, total_reward: 2, total_tokens: 3 });
    assert.equal(end.failure, null);
  });

  for (const reason of ['timeout', 'stopped', 'cancelled', 'failed'] as const) {
    test(`is a natural one rather than ${reason}`, async (t) => {
      const bench = await activityBench(t);
      await bench.started();
      await played(bench, { terminated: true });
      const failure = { type: 'GenerationUnavailable', message: 'gone' };
      const { result } = await bench.result('finishRollout', ending(reason, failure));
      assert.equal(result.stop_reason, 'terminated');
      assert.equal((await endOf(bench))?.failure, null);
    });
  }

  const named = { timeout: 'TimedOut', stopped: 'Stopped', cancelled: 'Cancelled' } as const;
  for (const [reason, type] of Object.entries(named)) {
    test(`is ${reason} where nothing else holds, as the failure ${type} at the turn in progress`, async (t) => {
      const bench = await activityBench(t);
      await bench.started();
      await played(bench);
      const { result } = await bench.result('finishRollout', ending(reason as keyof typeof named));
      assert.equal(result.stop_reason, reason);
      const failure = (await endOf(bench))?.failure;
      assert.deepEqual([failure?.type, failure?.turn], [type, 1]);
    });
  }

  test('carries the fault that failed the rollout', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const failure = { type: 'EnvironmentRejected', message: 'no such board' };
    await bench.result('finishRollout', ending('failed', failure));
    assert.deepEqual((await endOf(bench))?.failure, { ...failure, turn: 0 });
    // Later calls get what the journal has.
    assert.deepEqual((await bench.result('finishRollout', ending('timeout'))).failure, failure);
  });

  test('is kept even without a start', async (t) => {
    const bench = await activityBench(t);
    const failure = { type: 'PromptTooLong', message: 'by far' };
    const { result } = await bench.result('finishRollout', ending('failed', failure));
    assert.deepEqual([result.stop_reason, result.turn_count], ['failed', 0]);
    assert.deepEqual((await endOf(bench))?.failure, { ...failure, turn: 0 });
  });
});

describe('a timeout says what the rollout waited for', () => {
  const timedOut = async (bench: Bench): Promise<string> => {
    const { failure } = await bench.result('finishRollout', ending('timeout'));
    assert.equal(failure?.type, 'TimedOut');
    return failure.message;
  };
  const SINCE = /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC/.source;
  const write = async (bench: Bench, lines: JournalLine[]): Promise<void> => {
    const journal = await bench.store.claim(REF, { activity: 'playTurns' });
    for (const line of lines) await journal.append(entryOf(line));
    await journal.commit();
  };

  test('an environment that answered with errors: how often, since when, and the last one', async (t) => {
    const faults = ['503: busy', '503: still busy'].map(
      (message) => new Fault({ type: 'EnvironmentUnavailable', message, at: 'http://env' }),
    );
    const environment = scriptedEnvironment(faults);
    const bench = await activityBench(t, { environment });
    await bench.started();
    await write(bench, [a.chunk(), a.generation()]);
    for (let n = 0; n < faults.length; n++) await bench.run('stepEnvironment', { input: AT });
    const text = `^rollout_timeout passed; it waited for environment task at http://env \\(2 tries since ${SINCE}\\): 503: still busy$`;
    assert.match(await timedOut(bench), new RegExp(text));
  });

  test('an environment that never answered', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await write(bench, [a.chunk(), a.generation()]);
    const text = `^rollout_timeout passed; it waited for environment task \\(since ${SINCE}\\): no answer yet$`;
    assert.match(await timedOut(bench), new RegExp(text));
  });

  test('a generation service that was away', async (t) => {
    const message = 'connect ECONNREFUSED';
    const fault = new Fault({ type: 'GenerationUnavailable', message, at: 'http://replica/v1' });
    const bench = await activityBench(t, { service: scriptedService([{ then: fault }]) });
    await bench.started();
    await bench.run('generateTurn', { input: AT });
    const text = `it waited for generation service default at http://replica/v1 \\(1 try since ${SINCE}\\): ${message}$`;
    assert.match(await timedOut(bench), new RegExp(text));
  });

  test('nothing, where no attempt had begun', async (t) => {
    assert.equal(
      await timedOut(await activityBench(t)),
      'rollout_timeout passed; it had not begun',
    );
  });

  test('the policy, whose tokens still came', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await write(bench, [a.chunk({ token_ids: [1, 2, 3] })]);
    const text = 'rollout_timeout passed; the policy was generating: 3 tokens of its turn so far';
    assert.equal(await timedOut(bench), text);
  });
});

describe('a written end', () => {
  test('is returned as it is, whatever the workflow thinks, and nothing is added', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await bench.result('finishRollout', ending('stopped'));
    const { result } = await bench.result(
      'finishRollout',
      ending('failed', { type: 'T', message: 'm' }),
    );
    assert.equal(result.stop_reason, 'stopped');
    const ends = (await bench.journalLines()).filter(({ kind }) => kind === 'end');
    assert.equal(ends.length, 1);
  });

  test('is found by a retried attempt, which gives the same result', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await played(bench, { terminated: true });
    const first = await bench.result('finishRollout', ending(null));
    const { result } = await bench.run('finishRollout', { input: ending(null), number: 2 });
    assert.deepEqual(result, first);
  });
});

describe('finishing', () => {
  test('a rollout whose journal has lost the end that its workflow saw is failed as that', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const { failure, result } = await bench.result('finishRollout', ending(null));
    assert.equal(failure?.type, 'JournalLost');
    assert.match(failure.message, /journal of batch\/0-0 has lost its end/);
    assert.equal(result.stop_reason, 'failed');
    assert.equal((await endOf(bench))?.failure?.type, 'JournalLost');
  });

  test('a generated turn without an observation is no end', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const journal = await bench.store.claim(REF, { activity: 'generateTurn' });
    await journal.append(entryOf(a.chunk()));
    await journal.append(entryOf(a.generation()));
    await journal.commit();
    const { result } = await bench.result('finishRollout', ending('timeout'));
    assert.deepEqual([result.stop_reason, result.turn_count], ['timeout', 0]);
  });

  test('a rollout started by hand closes its batch of one', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await played(bench, { terminated: true });
    const input = { ...ending(null), rollout: { sample: {} } };
    const { result } = await bench.run('finishRollout', { input, workflow_id: BATCH });
    assert.equal(result?.result.rollout_id, 'batch/0-0');
    assert.equal(result.batch?.counts.completed, 1);
  });

  test('a rollout started by hand that was never planned writes nothing', async (t) => {
    const bench = await activityBench(t);
    const input = { ...ending('cancelled'), rollout: { sample: {} } };
    const { result } = await bench.run('finishRollout', { input, workflow_id: BATCH });
    assert.deepEqual(result, {
      result: {
        rollout_id: 'batch/0-0',
        stop_reason: 'cancelled',
        turn_count: 0,
        total_reward: 0,
        total_tokens: 0,
      },
      failure: null,
      facts: null,
      batch: null,
    });
    await assert.rejects(bench.journalLines(), /ENOENT/);
  });

  test('what is not a rollout is refused', async (t) => {
    const bench = await activityBench(t);
    const input = { ...ending('failed'), rollout: { batch_id: '../x', row: 0, repeat: 0 } };
    const { type, nonRetryable } = await bench.failure('finishRollout', input);
    assert.deepEqual([type, nonRetryable], ['InvalidBatchRequest', true]);
  });
});
