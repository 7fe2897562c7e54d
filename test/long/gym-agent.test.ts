/** Rollouts that NeMo Gym's agent servers play, while every process is killed. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { historyToJSON } from '@temporalio/common/lib/proto-utils.js';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import type { AgentOutcome } from '../../gym/collection/follow/agent-outcome.js';
import { agentOutcomeOf } from '../../gym/collection/follow/agent-outcome.js';
import { failuresBefore } from '../../src/model/journal/lives.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import { startBatch } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { GymAgentProcess } from '../harness/gym-agent-process.js';
import { startGymAgentProcess } from '../harness/gym-agent-process.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually } from '../../lab/bed/waiting.js';
import { idIn } from '../harness/written-history.js';
import type { AgentAct } from '../servers/gym-agent-script.js';
import { AgentScript, answerFor } from '../servers/gym-agent-script.js';

const QUEUE = 'gym-agent';
const BATCH = 'gym-agent';
const RECORDED = fileURLToPath(new URL('../histories/rollout-agent.json', import.meta.url));
const BUNDLE = { codePath: path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js') };
const LARGE = 20_000_000;
/** More than the kills and the faults of any row in total. */
const ENOUGH = 8;

/** The outcome of each call of a row; unnamed rows get an answer after a while. */
const always = (act: Record<string, unknown>): AgentAct[] => Array(ENOUGH).fill(act) as AgentAct[];
const script = AgentScript.parse({
  delay_ms: 1500,
  rows: {
    '0-0': [{ kind: 'status', status: 500 }],
    '0-1': [{ kind: 'hang' }, { kind: 'reset' }],
    '1-0': always({ kind: 'status', status: 422, body: 'no such field' }),
    '1-1': always({ kind: 'answer', without: ['reward'] }),
    '2-0': always({ kind: 'text', text: '{"reward": NaN}' }),
    '2-1': always({
      kind: 'answer',
      with: { _ng_failure_class: 'judge', _ng_failure_terminal: true },
    }),
    '3-0': always({ kind: 'answer', with: { _ng_no_persist: true } }),
    '3-1': always({ kind: 'large', bytes: LARGE }),
    '4-0': always({ kind: 'status', status: 500, body: 'boom' }),
  },
});

const NAMES = Array.from({ length: 12 }, (_, i) => `${i >> 1}-${i % 2}`);
/** An integer that a double cannot hold: the agent must receive exactly these digits. */
const rowOf = (name: string): string => {
  const [task, rollout] = name.split('-');
  return `{"_ng_task_index":${task},"_ng_rollout_index":${rollout},"seed":9007199254740993}`;
};
const samples = NAMES.map((name) => {
  const [task_index, rollout_index] = name.split('-').map(Number);
  const max_attempts = name === '4-0' ? 2 : ENOUGH;
  const timeout = name === '0-1' ? '2s' : null;
  const extra_env_info = {
    agent: 'simple_agent',
    task_index,
    rollout_index,
    max_attempts,
    timeout,
    row: rowOf(name),
  };
  return { message_log: [], task_name: 'gym', extra_env_info };
});

const times = (all: readonly number[], one: number): number =>
  all.filter((each) => each === one).length;

const FAILURES: Record<string, Partial<Extract<AgentOutcome, { kind: 'failure' }>>> = {
  '1-0': { failure_class: 'agent_run_error', status: 422 },
  '1-1': { failure_class: 'agent_run_error', status: null },
  '2-0': { failure_class: 'agent_run_error', status: null },
  '2-1': { failure_class: 'judge', terminal: true },
  '3-0': { failure_class: null, persist: false },
  // Its last run is answered with 500, or cut by the server's death.
  '4-0': { type: 'EnvironmentUnavailable', attempt: 1, terminal: false },
};

describe('a batch that an agent server plays', () => {
  let bed: Testbed;
  let agent: GymAgentProcess;

  before(async () => {
    Runtime.install({ logger: new DefaultLogger('WARN') });
    bed = await startTestbed('gym-agent');
    agent = await startGymAgentProcess({ directory: bed.directory, script });
  });
  after(async () => {
    await bed.end();
    await agent.kill();
  });

  const worker = (name: string) =>
    bed.startWorker({
      task_queue: QUEUE,
      name,
      generation: {},
      environments: { gym: { kind: 'gym_agent', head_server: agent.url, model_server: 'own' } },
      worker: { heartbeat_timeout: '2s' },
    });
  const isOpen = (row: string, call: number) => () => {
    const events = agent.events().filter((event) => event.row === row && event.call === call);
    return events.length === 1;
  };
  const trajectoryOf = (row: number) =>
    createFileStore({ root: bed.store_root, max_cached_bytes: 0 }).readTrajectory({
      batch_id: BATCH,
      row,
      repeat: 0,
    });

  test('whose worker and whose server are killed has every row once, with what became of it', async () => {
    const first = await worker('first');
    const batch = await startBatch(bed.batch(BATCH, QUEUE), { samples });
    const wait = 'runs of 5-0';
    await eventually(wait, isOpen('5-0', 0));
    await first.kill('SIGKILL');
    await worker('second');
    await eventually(wait, isOpen('5-0', 1));
    await agent.kill();
    await agent.start();
    const { failure, rollouts, failures, result } = await batch.outcome();

    assert.equal(failure, null);
    const failed = Object.keys(FAILURES);
    const nameOf = ({ row }: { row: number }) => NAMES[row] ?? '';
    assert.deepEqual(failures.map(nameOf), failed);
    assert.deepEqual(
      rollouts.map(nameOf),
      NAMES.filter((name) => !failed.includes(name)),
    );
    assert.deepEqual([result?.counts.completed, result?.counts.failed], [6, 6]);
    for (const row of rollouts) {
      const expected = answerFor(JSON.parse(rowOf(nameOf(row))) as Record<string, unknown>);
      const { padding = '', ...answer } = row.agent_result as { padding?: string };
      assert.deepEqual(answer, expected);
      assert.equal(padding.length, nameOf(row) === '3-1' ? LARGE : 0);
      assert.equal(row.total_reward, expected['reward']);
    }
  });

  test('has journals whose lives name each run, sent once unless its life was lost, and with its attempt', async () => {
    for (const [row, name] of NAMES.entries()) {
      const { lives } = await trajectoryOf(row);
      const attempts = lives.map((_, at) => failuresBefore({ lives: lives.slice(0, at + 1) }));
      for (const [at, { result }] of lives.entries())
        if (result !== null) assert.equal(result.attempt, attempts[at], name);
      const arrived = agent.events().filter((e) => e.event === 'arrived' && e.row === name);
      const sent = arrived.map(({ attempt_index }) => attempt_index ?? 0);
      // A life that was lost was no attempt, and may have arrived: the next one has its index.
      for (const attempt of sent)
        assert.ok(
          times(sent, attempt) <= times(attempts, attempt),
          `${name}: ${sent.join()} of ${attempts.join()}`,
        );
      for (const { body, attempt_index } of arrived) {
        const stamp = attempt_index === null ? '' : `,"_ng_attempt_index":${attempt_index}`;
        assert.equal(body, rowOf(name).replace('}', `${stamp}}`));
      }
    }
    const killed = agent.events().filter((e) => e.event === 'arrived' && e.row === '5-0');
    assert.ok(killed.length >= 3, `5-0 was sent ${killed.length} times`);
  });

  test('has outcomes that tell results from failures, by class', async () => {
    for (const [row, name] of NAMES.entries()) {
      const outcome = agentOutcomeOf(await trajectoryOf(row));
      const expected = FAILURES[name];
      if (expected === undefined) {
        assert.equal(outcome?.kind, 'result', name);
        continue;
      }
      assert.ok(outcome?.kind === 'failure', name);
      assert.deepEqual({ ...outcome, ...expected }, outcome, name);
    }
  });

  test('shows agent, task, attempt and reward, and its histories replay', async () => {
    const handle = bed.server.client.workflow.getHandle(`${BATCH}/10-0`);
    const { typedSearchAttributes } = await handle.describe();
    const attributes = Object.fromEntries(
      typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]),
    );
    const { total_reward } = await trajectoryOf(10);
    assert.deepEqual(
      ['RolloutAgent', 'RolloutKey', 'RolloutReward', 'RolloutOutcome'].map(
        (name) => attributes[name],
      ),
      ['simple_agent', '5-0', total_reward, 'terminated'],
    );
    const history = await handle.fetchHistory();
    await Worker.runReplayHistory({ workflowBundle: BUNDLE }, history, idIn(history));
    if (process.env['RECORD_HISTORIES'] === '1') await writeFile(RECORDED, historyToJSON(history));
  });
});
