import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { WorkflowNotFoundError } from '@temporalio/common';
import type { RolloutProgress } from '../../src/activities/contract.js';
import { createLocalSandbox } from '../../src/environments/code/local-sandbox.js';
import { graderCommand } from '../../src/environments/math/grader-install.js';
import { EnvironmentSettings } from '../../src/environments/registry.js';
import { firstFreePort } from '../../dev/free-port.js';
import { describeError } from '../../src/platform/errors.js';
import type { Row } from '../../src/model/results/row.js';
import type { Sample } from '../../src/model/sample.js';
import { signalTo } from '../../src/sandbox/watch/process-tree.js';
import { fieldIn } from '../../src/model/foreign-object.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { copyJournals } from '../../lab/bed/journal-copies.js';
import { descendantsWith, isRunning } from '../../lab/bed/process-tree.js';
import type { PythonServer } from '../harness/python-server.js';
import { startPythonServer } from '../harness/python-server.js';
import type { RecoveryBatch, RecoveryBed } from '../../lab/bed/bed.js';
import { startRecoveryBed } from '../../lab/bed/bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const MIXED = path.join(PROJECT_ROOT, 'examples', 'mixed');
const REPEATS = 2;
const skip = spawnSync('python3', ['--version']).status !== 0 ? 'there is no python3' : false;

const CODE = EnvironmentSettings.parse({ kind: 'code' });

/** Why this machine has no sandbox; null: it has one. */
async function missingSandbox(): Promise<string | null> {
  assert.ok(CODE.kind === 'code');
  const sandbox = createLocalSandbox({ settings: CODE, report: () => undefined });
  try {
    await sandbox.level(AbortSignal.timeout(60_000));
    return null;
  } catch (error) {
    return describeError(error);
  } finally {
    await sandbox.close();
  }
}

/** The environments that this machine cannot run, each with the reason. */
async function missingTasks(): Promise<Map<string, string>> {
  const grader = graderCommand(process.env) === null ? 'the maths grader is not installed' : null;
  const linux = process.platform === 'linux' ? null : 'processes are found in /proc';
  const missing = { math: linux ?? grader, code: linux ?? (await missingSandbox()) };
  return new Map(
    Object.entries(missing).filter((entry): entry is [string, string] => entry[1] !== null),
  );
}

async function mixedSamples(missing: Map<string, string>): Promise<Sample[]> {
  const text = await readFile(path.join(MIXED, 'samples.jsonl'), 'utf8');
  const samples = text
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as Sample);
  return samples.filter(({ task_name }) => !missing.has(task_name));
}

/** Found by their command lines. */
const GRADER = 'grader.py';
const INTERPRETER = '.main(hello)';

/** A victim may end with the previous one. */
function killAll(pids: number[]): void {
  for (const pid of pids) signalTo(pid, 'SIGKILL');
}

describe('a batch of several environments', { skip }, () => {
  let bed: RecoveryBed;
  let python: PythonServer | null = null;
  let port = 0;
  let missing: Map<string, string>;
  let samples: Sample[];

  before(async () => {
    missing = skip === false ? await missingTasks() : new Map<string, string>();
    samples = await mixedSamples(missing);
    port = await firstFreePort(19_000 + (process.pid % 1000));
    const all = {
      sliding_puzzle: { kind: 'sliding_puzzle' },
      math: { kind: 'math', verifier: 'hf_math_verify', return_extracted_answer: true },
      code: { kind: 'code' },
      words: { kind: 'module', path: path.join(MIXED, '../custom-environment/environment.ts') },
      countdown: {
        kind: 'http',
        url: `http://127.0.0.1:${port}`,
        task_queue: 'countdown',
        max_concurrent: 8,
      },
    } as const;
    bed = await startRecoveryBed({
      name: 'mixed',
      // Turns are long enough to be interrupted.
      simulator: { tokens_per_second: 20, dev_mode: true },
      environments: Object.fromEntries(Object.entries(all).filter(([name]) => !missing.has(name))),
    });
  });
  after(async () => {
    await python?.kill();
    await bed.end();
  });

  const ofTask = (task: string): string[] =>
    samples.flatMap(({ task_name }, row) =>
      task_name === task
        ? Array.from({ length: REPEATS }, (_, repeat) => `mixed/${row}-${repeat}`)
        : [],
    );

  /**
   * The batch's rollouts of a task between their first generation and its observation, or between that and the second
   * generation.
   */
  const rolloutsIn = async (task: string, place: 'first step' | 'second turn'): Promise<string[]> =>
    [...(await copyJournals(bed.storeRoot('mixed'), 'mixed')).rollouts]
      .filter(([id]) => ofTask(task).includes(id))
      .filter(([, { generations, observations }]) =>
        place === 'first step'
          ? generations.has(0) && !observations.has(0)
          : observations.has(0) && !generations.has(1),
      )
      .map(([id]) => id);

  const waitingOf = async (rollout_id: string): Promise<RolloutProgress['waiting']> => {
    const rollout = bed.server().client.workflow.getHandle(rollout_id);
    try {
      return (await rollout.query<RolloutProgress>('progress')).waiting;
    } catch (error) {
      // Its batch has not started it yet.
      if (error instanceof WorkflowNotFoundError) return null;
      throw error;
    }
  };

  const control = async (action: string): Promise<void> => {
    const { ok } = await fetch(`${bed.simulator().url}${action}`, { method: 'POST' });
    assert.ok(ok, action);
  };

  /** It is frozen before the first answer is complete, so the kill hits the middle of a check. */
  const killGraderInCheck = async (worker: number): Promise<void> => {
    await eventually('rollouts', async () => {
      return (await copyJournals(bed.storeRoot('mixed'), 'mixed')).rollouts.size > 0;
    });
    const graders = descendantsWith(worker, GRADER);
    assert.ok(graders.length > 0, 'no grader is there');
    for (const pid of graders) process.kill(pid, 'SIGSTOP');
    await eventually('an answer to be checked', async () => {
      return (await rolloutsIn('math', 'first step')).length > 0;
    });
    killAll(graders);
  };

  /** No token arrives meanwhile, so the second turns are still to come. */
  const killBetweenTurns = async (worker: number): Promise<void> => {
    const task = missing.has('code') ? 'countdown' : 'code';
    const between = async (): Promise<boolean> =>
      (await rolloutsIn(task, 'second turn')).length > 0;
    await eventually(`a second turn of ${task}`, between);
    await control('/pause?mode=keep');
    assert.ok(await between(), 'paused too late');
    if (task === 'code') {
      const interpreters = descendantsWith(worker, INTERPRETER);
      assert.ok(interpreters.length > 0, 'no interpreter is there');
      killAll(interpreters);
      const gone = (): boolean => !interpreters.some(isRunning);
      await eventually('the end of the interpreters', gone);
    }
    await python?.kill();
    await bed.simulator().change({ tokens_per_second: 200 });
    await control('/resume');
  };

  const start = async (batch: RecoveryBatch): Promise<void> => {
    const request = JSON.parse(await readFile(path.join(MIXED, 'batch.json'), 'utf8')) as object;
    await batch.start({ ...request, samples });
    await eventually('the batch to wait', async () => {
      const { phase, waiting } = await batch.progress();
      return phase === 'planning' && waiting?.service.endsWith(`:${port}`) === true;
    });
  };

  const checkRows = (rollouts: Row[]): void => {
    const of = (task: string): Row[] => rollouts.filter(({ task_name }) => task_name === task);
    const contents = (row: Row): unknown[] =>
      row.message_log.slice(1).map(({ content }) => content);
    for (const row of of('words')) assert.ok(Number(row.extracted_answer) >= 1);
    for (const task of ['sliding_puzzle', 'code', 'countdown'])
      assert.ok(of(task).every((row) => !('extracted_answer' in row)));
    for (const row of of('math')) {
      const right = fieldIn(row.extra_env_info, 'ground_truth') === '42';
      assert.equal(row.total_reward, right ? 1 : 0);
      assert.equal(row.extracted_answer, right ? '42' : '2/3');
      assert.equal(contents(row)[1], `Environment: ${right ? 'correct' : 'incorrect'}`);
    }
    for (const row of of('code')) {
      const [first, silence, second, value] = contents(row);
      assert.match(
        `${String(first)} ${String(second)}`,
        /^<code>(x|double) = .* <code>(x \+ 1|double\(21\))<\/code>$/,
      );
      assert.deepEqual([silence, value], ['', '<result>42</result>']);
      assert.deepEqual([row.turn_count, row.terminated], [2, true]);
    }
  };

  test('waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment', (t) =>
    bed.observed(async () => {
      for (const [task, reason] of missing) t.diagnostic(`without ${task}: ${reason}`);
      const worker = await bed.startWorker('mixed');
      const batch = bed.batch('mixed', 'mixed');
      await start(batch);
      python = await startPythonServer({ cwd: MIXED, served: 'environment:Countdown', port });
      if (!missing.has('math')) await killGraderInCheck(worker.pid());
      await killBetweenTurns(worker.pid());
      await eventually('a rollout to wait', async () => {
        const waits = await Promise.all(ofTask('countdown').map(waitingOf));
        return waits.some((waiting) => waiting?.service.endsWith(`:${port}`));
      });
      python = await startPythonServer({ cwd: MIXED, served: 'environment:Countdown', port });
      const { result, rollouts, failures } = await batch.outcome();
      assert.equal(worker.ownEnds(), 0);
      await worker.stop();

      assert.deepEqual(failures, []);
      assert.equal(rollouts.length, samples.length * REPEATS);
      assert.equal(result?.counts.completed, samples.length * REPEATS);
      checkRows(rollouts);
      const { metrics } = result;
      const { 'env/sliding_puzzle/sliding_puzzle_success_rate': solved = -1, ...others } =
        Object.fromEntries(Object.entries(metrics).filter(([name]) => name.startsWith('env/')));
      assert.ok(solved >= 0 && solved <= 1);
      assert.deepEqual(others, {
        'env/countdown/played': 6,
        'env/countdown/finished': 6,
        ...(!missing.has('math') && {
          'env/math/accuracy': 0.5,
          'env/math/pass@samples_per_prompt': 0.5,
          'env/math/num_problems_in_batch': 4,
        }),
      });
    }));
});
