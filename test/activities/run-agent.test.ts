import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { ApplicationFailure } from '@temporalio/activity';
import { Fault } from '../../src/model/faults.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { Journal } from '../../src/trajectories/trajectory-store.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import type { ScriptedAgent, ScriptedRun } from '../fakes/scripted-agent.js';
import { scriptedAgent } from '../fakes/scripted-agent.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';

const INFO = { agent: 'simple_agent', task_index: 3, rollout_index: 1, row: '{"a": 1.0}' };

async function playing(
  t: TestContext,
  { runs, info = {} }: { runs: ScriptedRun[]; info?: object },
): Promise<Bench & { agent: ScriptedAgent; kinds: () => Promise<string[]> }> {
  const agent = scriptedAgent(runs);
  const bench = await activityBench(t, { environments: { task: agent.environment } });
  const extra_env_info = { ...INFO, ...info };
  const program = agent.environment.program!.rules.program;
  await bench.started({ plays: 'agent', program, prompt: [], extra_env_info });
  const kinds = async (): Promise<string[]> =>
    (await bench.journalLines()).map(({ kind }) => kind).filter((kind) => kind !== 'claim');
  return { ...bench, agent, kinds };
}

const unavailable = (status: number | null = 500): Fault =>
  new Fault({
    type: 'EnvironmentUnavailable',
    message: 'POST http://agent/run answered 500: boom',
    failureClass: 'agent_run_error',
    ...(status !== null && { status }),
  });

/** The lines of a life whose result counts, and of the rollout's end. */
const PLAYED = ['life', 'result', 'exit', 'observation', 'end'];

describe('a run of an agent', () => {
  test('is journalled before it is sent, and its result before the activity completes', async (t) => {
    const { agent, result, journalLines, kinds } = await playing(t, { runs: [{}] });
    const progress = await result('playTurns', AT);
    assert.deepEqual(
      [progress.ended, progress.total_reward, progress.turn],
      ['terminated', 0.5, 0],
    );
    assert.deepEqual(await kinds(), ['start', ...PLAYED]);
    const answer = (await journalLines()).find(({ kind }) => kind === 'result');
    assert.ok(answer?.kind === 'result');
    assert.deepEqual([answer.text, answer.reward, answer.attempt], ['{"reward":0.5}', 0.5, 0]);
    assert.deepEqual(agent.requests, [{ agent: 'simple_agent', attempt: 0, key: '' }]);
  });

  test('whose result is journalled is not asked for again', async (t) => {
    const { agent, result } = await playing(t, { runs: [{}] });
    const first = await result('playTurns', AT);
    assert.deepEqual(await result('playTurns', AT), first);
    assert.equal(agent.requests.length, 1);
  });

  test('has the attempt that follows the failures of its sample', async (t) => {
    const { agent, result } = await playing(t, { runs: [{}], info: { attempt_index: 1 } });
    await result('playTurns', AT);
    assert.equal(agent.requests[0]?.attempt, 1);
  });

  test("that its own end cuts is none of the row's attempts, however often", async (t) => {
    const runs: ScriptedRun[] = ['hang', 'hang', {}];
    const { agent, run, result, kinds } = await playing(t, { runs, info: { max_attempts: 1 } });
    for (const sent of [1, 2]) {
      const { error } = await run('playTurns', {
        input: AT,
        cancelling: (cancel) => {
          const wait = setInterval(() => {
            if (agent.requests.length < sent) return;
            clearInterval(wait);
            cancel();
          }, 5);
        },
      });
      assert.ok(error !== undefined);
    }
    assert.equal((await result('playTurns', AT)).ended, 'terminated');
    assert.deepEqual(await kinds(), ['start', 'life', 'life', ...PLAYED]);
    assert.deepEqual(
      agent.requests.map(({ attempt }) => attempt),
      [0, 0, 0],
    );
  });
});

/** Lines of this kind find no room in the store. Returns what makes room. */
function full({ store }: Bench, kind: JournalLine['kind']): () => void {
  const claim = store.claim.bind(store);
  store.claim = async (...given) => {
    const journal = await claim(...given);
    const append: Journal['append'] = (entry) =>
      entry.kind === kind
        ? Promise.reject(new Fault({ type: 'StoreFault', message: 'the disk is full' }))
        : journal.append(entry);
    return { ...journal, append };
  };
  return () => (store.claim = claim);
}

describe('an end that the journal decides', () => {
  test('is that of an answer without its exit: no agent is asked, or waited for', async (t) => {
    const bench = await playing(t, { runs: [{}] });
    const empty = full(bench, 'exit');
    assert.equal((await bench.failure('playTurns', AT)).type, 'StoreFault');
    empty();
    bench.agent.isAway = true;
    const { result } = await bench.run('playTurns', { input: AT, number: 2 });
    assert.deepEqual([result?.ended, result?.total_reward], ['terminated', 0.5]);
    assert.deepEqual(await bench.kinds(), ['start', ...PLAYED]);
    assert.equal(bench.agent.requests.length, 1);
  });

  test('is that of a row without attempts: no agent is waited for', async (t) => {
    const bench = await playing(t, { runs: [unavailable()], info: { max_attempts: 1 } });
    const empty = full(bench, 'fault');
    assert.equal((await bench.failure('playTurns', AT)).type, 'StoreFault');
    empty();
    bench.agent.isAway = true;
    const { error } = await bench.run('playTurns', { input: AT, number: 2 });
    assert.deepEqual(
      [(error as ApplicationFailure).type, (error as ApplicationFailure).nonRetryable],
      ['AgentFailed', true],
    );
  });
});

describe('an answer that finds no room in the store', () => {
  test('leaves the row its attempt', async (t) => {
    const bench = await playing(t, { runs: [{}, {}], info: { max_attempts: 1 } });
    const empty = full(bench, 'result');
    const failure = await bench.failure('playTurns', AT);
    assert.deepEqual(failure, {
      type: 'StoreFault',
      message: 'the disk is full',
      nonRetryable: false,
    });
    empty();
    assert.equal((await bench.result('playTurns', AT)).ended, 'terminated');
    assert.deepEqual(await bench.kinds(), ['start', 'life', ...PLAYED]);
  });
});

describe('a server that is not there', () => {
  test('is waited for without a life, and without using up an attempt', async (t) => {
    const bench = await playing(t, { runs: [{}], info: { max_attempts: 1 } });
    bench.agent.isAway = true;
    for (let i = 0; i < 3; i++) {
      const failure = await bench.failure('playTurns', AT);
      assert.deepEqual([failure.type, failure.nonRetryable], ['EnvironmentUnavailable', false]);
    }
    bench.agent.isAway = false;
    const { result, waiting } = await bench.run('playTurns', {
      input: AT,
      heartbeatDetails: { waiting: 1, checkpoint: null },
    });
    assert.equal(result?.ended, 'terminated');
    assert.deepEqual(waiting, [null]);
    assert.deepEqual(await bench.kinds(), ['start', 'fault', 'fault', 'fault', ...PLAYED]);
    assert.equal(bench.agent.requests[0]?.attempt, 0);
  });

  test('has its journal grow once, however often it is asked', async (t) => {
    const bench = await playing(t, { runs: [{}] });
    bench.agent.isAway = true;
    const sizes = new Set<number>();
    for (let number = 1; number <= 4; number++) {
      const { error } = await bench.run('playTurns', { input: AT, number });
      assert.equal((error as ApplicationFailure).type, 'EnvironmentUnavailable');
      sizes.add(await bench.store.journalSize(AT));
    }
    assert.equal(bench.agent.asked.length, 4);
    assert.equal(sizes.size, 1);
    bench.agent.isAway = false;
    const { result } = await bench.run('playTurns', { input: AT, number: 5 });
    assert.equal(result?.ended, 'terminated');
    assert.deepEqual(await bench.kinds(), ['start', 'fault', ...PLAYED]);
  });
});

describe('a server that takes no run', () => {
  test('is asked again without using up an attempt, when it says', async (t) => {
    const full = unavailable(503).with({ uncounted: true, retryAfterMs: 7000 });
    const runs = [full, full, full, {}];
    const { agent, run, result, kinds } = await playing(t, { runs, info: { max_attempts: 1 } });
    for (let i = 0; i < 3; i++) {
      const { error } = await run('playTurns', { input: AT });
      const { nonRetryable, nextRetryDelay } = error as ApplicationFailure;
      assert.deepEqual([nonRetryable, nextRetryDelay], [false, 7000]);
    }
    assert.equal((await result('playTurns', AT)).ended, 'terminated');
    assert.deepEqual((await kinds()).slice(-7), ['life', 'fault', ...PLAYED]);
    assert.deepEqual(
      agent.requests.map(({ attempt }) => attempt),
      [0, 0, 0, 0],
    );
  });
});

describe('a run that failed', () => {
  test('is tried again while the row has attempts left, and the last fault is final', async (t) => {
    const runs = [unavailable(), unavailable(), unavailable()];
    const { agent, failure, kinds, journalLines } = await playing(t, { runs });
    const seen = [];
    for (let i = 0; i < 3; i++) seen.push(await failure('playTurns', AT));
    assert.deepEqual(
      seen.map(({ nonRetryable }) => nonRetryable),
      [false, false, true],
    );
    const failed = ['life', 'exit', 'fault'];
    assert.deepEqual(await kinds(), ['start', ...failed, ...failed, ...failed]);
    assert.deepEqual(
      agent.requests.map(({ attempt }) => attempt),
      [0, 1, 2],
    );
    const last = (await journalLines()).at(-1);
    assert.ok(last?.kind === 'fault');
    assert.deepEqual([last.failure_class, last.status], ['agent_run_error', 500]);

    // As a batch finds it that is started again.
    const again = await failure('playTurns', AT);
    assert.deepEqual(again, {
      type: 'EnvironmentUnavailable',
      message: unavailable().message,
      nonRetryable: true,
    });
    assert.equal(agent.requests.length, 3);
  });

  for (const [said, answer, more] of [
    ['_ng_failure_class "judge"', { reward: null, _ng_failure_class: 'judge' }],
    ['judge_failed: its reward means nothing', { reward: 0, judge_failed: true }],
    [
      'a result that cannot be trained on: reward_components.a: expected a finite number, got null',
      { reward: 1, reward_components: { a: null } },
      'EnvironmentRejected',
    ],
  ] as const) {
    const type = more ?? 'AgentFailed';
    test(`with ${said} is ${type}, journalled whole, and played again by a batch that continues`, async (t) => {
      const { failure, result, journalLines } = await playing(t, { runs: [answer, {}] });
      const message = `simple_agent answered attempt 0 with ${said}`;
      assert.deepEqual(await failure('playTurns', AT), { type, message, nonRetryable: true });
      const line = (await journalLines()).find(({ kind }) => kind === 'result');
      assert.ok(line?.kind === 'result');
      assert.equal(line.text, JSON.stringify(answer));
      assert.equal((await result('playTurns', AT)).ended, 'terminated');
    });
  }

  test('for good is not played again', async (t) => {
    const runs = [{ reward: null, _ng_failure_class: 'judge', _ng_failure_terminal: true }];
    const { failure, agent } = await playing(t, { runs });
    const first = await failure('playTurns', AT);
    assert.deepEqual(await failure('playTurns', AT), first);
    assert.equal(agent.requests.length, 1);
  });

  test('of which nothing is to be kept is AgentFailed, whatever its reward', async (t) => {
    const { failure } = await playing(t, { runs: [{ _ng_no_persist: true }] });
    const { type, message } = await failure('playTurns', AT);
    assert.deepEqual(
      [type, message],
      ['AgentFailed', 'simple_agent answered attempt 0 with _ng_no_persist'],
    );
  });
});

describe('a batch of samples that an agent plays', () => {
  const sampleOf = (more: object = {}) => ({
    message_log: [],
    task_name: 'task',
    extra_env_info: { ...INFO, ...more },
  });
  const plan = async (t: TestContext, samples: object[]) => {
    const agent = scriptedAgent([]);
    const other = scriptedEnvironment([]);
    const bench = await activityBench(t, { environments: { task: agent.environment, other } });
    const request = { samples, generation: { service: 'none of them' } };
    return { ...bench, agent, given: { input: request, workflow_id: 'batch' } };
  };

  test('asks no generation service and needs none, but every agent once', async (t) => {
    const samples = [sampleOf(), sampleOf(), sampleOf({ agent: 'other' })];
    const { run, agent, store, given } = await plan(t, samples);
    const { result, error } = await run('planBatch', given);
    assert.equal(error, undefined);
    assert.equal(result?.samples, 3);
    assert.deepEqual(agent.asked, ['simple_agent', 'other']);
    assert.equal((await store.findRequest('batch'))?.generation.model, null);
  });

  test('beside one that a policy plays needs the service that this asks for', async (t) => {
    const others = [
      sampleOf(),
      { message_log: [{ role: 'user', content: 'go' }], task_name: 'other' },
    ];
    const { run, given } = await plan(t, others);
    const { error } = await run('planBatch', given);
    assert.match(
      (error as Error).message,
      /^generation\.service: expected one of default, got "none of them"$/,
    );
  });

  test('is the only one whose prompts may be empty', async (t) => {
    const { run, given } = await plan(t, [{ message_log: [], task_name: 'other' }]);
    const { error } = await run('planBatch', given);
    assert.match(
      (error as Error).message,
      /^samples row 0: message_log: expected at least one message, got an empty prompt$/,
    );
  });

  test('waits for an agent that is away', async (t) => {
    const { run, agent, given } = await plan(t, [sampleOf()]);
    agent.isAway = true;
    const { error, waiting } = await run('planBatch', given);
    assert.equal((error as { type?: string }).type, 'EnvironmentUnavailable');
    assert.equal(waiting[0]?.service, 'http://agent');
  });

  test('is refused by row and field where a sample is not one of an agent', async (t) => {
    const { run, given } = await plan(t, [sampleOf(), sampleOf({ row: '[]' })]);
    const { error } = await run('planBatch', given);
    assert.match(
      (error as Error).message,
      /^samples row 1: extra_env_info\.row: expected the JSON text of an object, got \[\]$/,
    );
  });

  test('starts its rollouts with a plan that names agent, row and attempt, and renders nothing', async (t) => {
    const samples = [sampleOf({ attempt_index: 1 })];
    const { run, result, journalLines, checkPlayed, given } = await plan(t, samples);
    await run('planBatch', given);
    const rollout = await result('openRollout', { batch_id: 'batch', row: 0, repeat: 0 });
    assert.deepEqual(rollout.agent, {
      name: 'simple_agent',
      task_index: 3,
      rollout_index: 1,
      attempt: 1,
    });
    assert.deepEqual(
      [rollout.plays, rollout.progress.phase, rollout.queues.playTurns],
      ['in_slices', 'run', 'queue-of-task'],
    );
    const start = (await journalLines()).find((line) => line.kind === 'start');
    assert.deepEqual([start?.plays, start?.prompt, start?.settings.model], ['agent', [], '']);
    checkPlayed();
  });

  test('finishes them with the attempt that was the last', async (t) => {
    const bench = await playing(t, { runs: [{}], info: { attempt_index: 1 } });
    await bench.result('playTurns', AT);
    const { result } = await bench.result('finishRollout', {
      rollout: { batch_id: 'batch', row: 0, repeat: 0 },
      stop_reason: null,
      failure: null,
    });
    assert.deepEqual(
      [result.stop_reason, result.total_reward, result.attempt],
      ['terminated', 0.5, 1],
    );
  });
});
