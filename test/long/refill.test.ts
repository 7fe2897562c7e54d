/** Batches whose failed rollouts are replaced. The environment refuses the rollouts that a test names. */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { DefaultLogger, Runtime, Worker } from '@temporalio/worker';
import type { BatchProgress, Counts } from '../../src/activities/contract.js';
import type { Row } from '../../src/model/results/row.js';
import type { BatchOutcome, StartedBatch } from '../../lab/bed/batch.js';
import { startBatch } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import { eventually, within } from '../../lab/bed/waiting.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';
import { idIn } from '../harness/written-history.js';
import { sendJson } from '../servers/json-server.js';
import type { EnvironmentStep } from '../servers/scripted-environment.js';
import type { Step } from '../servers/scripts.js';

const QUEUE = 'refill';
const ROWS = 2;
const NONE: Counts = {
  requested: 0,
  completed: 0,
  failed: 0,
  timed_out: 0,
  stopped: 0,
  cancelled: 0,
};

const stepOf = (terminated: boolean): Step => ({
  observation: { role: 'environment', content: terminated ? 'done' : 'go on' },
  reward: 1,
  terminated,
  metadata: null,
  stop_strings: null,
});

/** What the environment does at the last turn of some rollouts, by place. */
interface Script {
  turns?: number;
  /** Refused for good. */
  fails?: ReadonlySet<string>;
  /** Answered when the promise resolves. */
  held?: ReadonlyMap<string, Promise<unknown>>;
}

describe('a batch of completion policy refill', () => {
  let bed: Testbed;
  let worker: WorkerProcess;
  let startWorker: () => Promise<WorkerProcess>;

  before(async () => {
    bed = await startTestbed('refill');
    const replica = await bed.engine.listen();
    let workers = 0;
    startWorker = () =>
      bed.startWorker({
        task_queue: QUEUE,
        name: `worker-${++workers}`,
        generation: { default: { kind: 'vllm', base_urls: [replica] } },
        environments: { scripted: { kind: 'http', url: bed.environment.url } },
        worker: { heartbeat_timeout: '2s' },
      });
    worker = await startWorker();
  });
  after(() => bed.end());

  const placeOf = ({ row, repeat }: { row: number; repeat: number }): string => `${row}-${repeat}`;
  const placesOf = (rows: Row[]): string[] =>
    rows.map((row) => placeOf(row) + (row.replaces === undefined ? '' : ` for ${row.replaces}`));

  function script(id: string, { turns = 2, fails = new Set(), held = new Map() }: Script): void {
    const ofRows = <T>(of: (turn: number) => T): T[][] =>
      Array.from({ length: ROWS }, () => Array.from({ length: turns }, (_, turn) => of(turn)));
    bed.engine.script(id, {
      generation: ofRows((turn) => ({ text: `move ${turn}`, eos: true })),
      allow_repeats: true,
    });
    bed.environment.script(id, {
      steps: ofRows((turn) => stepOf(turn === turns - 1)),
      allow_repeats: true,
      intercept: async (step, response) => {
        if (step.turn < turns - 1) return false;
        await held.get(placeOf(step));
        if (!fails.has(placeOf(step))) return false;
        step.outcome = 'raised';
        sendJson(response, { status: 400, body: { error: { type: 'Refused', message: 'no' } } });
        return true;
      },
    });
  }

  const requestOf = (size: { samples: number; num_repeats: number; max_replacements: number }) => ({
    samples: Array.from({ length: size.samples }, () => ({
      message_log: [{ role: 'user', content: 'play' }],
      task_name: 'scripted',
    })),
    num_repeats: size.num_repeats,
    completion: { policy: 'refill', max_replacements: size.max_replacements },
  });

  const start = (id: string, request: Record<string, unknown>): Promise<StartedBatch> =>
    startBatch(bed.batch(id, QUEUE), request);

  /** Its result, without problems. While it ran, it never counted more rollouts than it has. */
  async function ended({ handle, outcome }: StartedBatch): Promise<BatchOutcome> {
    const ending = outcome();
    const state = { over: false };
    void ending.finally(() => (state.over = true)).catch(() => undefined);
    await eventually('the end', async () => {
      const progress = await handle.query<BatchProgress>('progress').catch(() => null);
      if (progress !== null)
        assert.ok(progress.done <= progress.requested, JSON.stringify(progress));
      return state.over;
    });
    const now = await ending;
    assert.deepEqual([now.failure, bed.engine.problems, bed.environment.problems], [null, [], []]);
    return now;
  }

  /** Resolves on request. */
  function gate(): { opened: Promise<unknown>; open: () => void } {
    let open = (): void => undefined;
    const opened = new Promise((resolve) => {
      open = () => {
        resolve(null);
      };
    });
    return {
      opened,
      open: () => {
        open();
      },
    };
  }

  /** By place and turn. */
  const untilStep = (id: string, name: string): Promise<EnvironmentStep> =>
    eventually(`step ${name}`, () =>
      bed.environment.steps(id).find(({ key }) => key === `${id}/${name}`),
    );

  const meanTokens = (rows: Row[]): number =>
    rows.reduce((sum, { total_tokens }) => sum + total_tokens, 0) / rows.length;

  test('replaces who failed by new repeats, replacements too, and counts each apart', async () => {
    const id = 'replaced';
    script(id, { fails: new Set(['0-1', '1-0', '1-3']) });
    const request = requestOf({ samples: 2, num_repeats: 3, max_replacements: 5 });
    const batch = await start(id, { ...request, max_in_flight: 2 });
    const { result, rollouts, failures } = await ended(batch);
    assert.deepEqual(placesOf(rollouts), ['0-0', '0-2', '0-3 for 1', '1-1', '1-2', '1-4 for 3']);
    assert.deepEqual(placesOf(failures), ['0-1', '1-0', '1-3 for 0']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 9, completed: 6, failed: 3 });
    const { metrics } = result;
    assert.equal(metrics['replaced/count'], 3);
    assert.equal(metrics['replaced/mean_tokens'], meanTokens(failures));
    assert.equal(metrics['completed/mean_tokens'], meanTokens(rollouts));
    assert.deepEqual(
      [metrics['group/count'], metrics['group/solve_all_rate'], metrics['pass@3']],
      [2, 1, 2],
    );
    const progress = await batch.handle.query<BatchProgress>('progress');
    const { phase, requested, done, valid, failed, replacements } = progress;
    assert.deepEqual(
      [phase, requested, done, valid, failed, replacements],
      ['done', 9, 9, 6, 3, 3],
    );
  });

  test('leaves them failed once max_replacements have been used', async () => {
    const id = 'exhausted';
    const all = Array.from({ length: 10 }, (_, repeat) => `0-${repeat}`);
    script(id, { fails: new Set(all) });
    const request = requestOf({ samples: 2, num_repeats: 2, max_replacements: 3 });
    const { result, rollouts, failures } = await ended(await start(id, request));
    assert.deepEqual(placesOf(rollouts), ['1-0', '1-1']);
    assert.deepEqual(failures.map(placeOf), ['0-0', '0-1', '0-2', '0-3', '0-4']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 7, completed: 2, failed: 5 });
    assert.equal(result.metrics['replaced/count'], 3);
    assert.equal(result.metrics['group/count'], 1);
  });

  test('replaces one that ran out of time', async () => {
    const id = 'timeout';
    const { opened, open } = gate();
    script(id, { held: new Map([['0-1', opened]]) });
    const request = requestOf({ samples: 1, num_repeats: 2, max_replacements: 2 });
    const batch = await start(id, { ...request, rollout_timeout: '6s' });
    const { result, rollouts } = await ended(batch);
    open();
    assert.deepEqual(placesOf(rollouts), ['0-0', '0-2 for 1']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 3, completed: 2, timed_out: 1 });
  });

  test('replaces no member after a stop', async () => {
    const id = 'stopped';
    const { opened, open } = gate();
    script(id, { fails: new Set(['0-0']), held: new Map([['0-1', opened]]) });
    const request = requestOf({ samples: 1, num_repeats: 1, max_replacements: 5 });
    const batch = await start(id, request);
    await untilStep(id, '0-1/1');
    await batch.handle.signal('stop');
    const { result, rollouts, failures } = await ended(batch);
    open();
    assert.deepEqual(rollouts, []);
    assert.deepEqual(placesOf(failures), ['0-0', '0-1 for 0']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 2, failed: 1, stopped: 1 });
  });

  test('that is started again continues with replacements, and keeps those that are no longer needed', async () => {
    const id = 'continued';
    const { opened, open } = gate();
    script(id, { fails: new Set(['0-0', '1-1']), held: new Map([['1-2', opened]]) });
    const request = requestOf({ samples: 2, num_repeats: 2, max_replacements: 4 });
    const { handle } = await start(id, request);
    await untilStep(id, '1-2/1');
    await eventually('all others to end', async () => {
      const { done, running } = await handle.query<BatchProgress>('progress');
      return done === 5 && running === 1;
    });
    await worker.kill('SIGKILL');
    // The same state as after the loss of Temporal's database: only the store is left.
    await handle.terminate();
    open();
    const before = bed.engine.requests(id).length;
    script(id, { fails: new Set(['1-1']) });
    worker = await startWorker();
    const { result, rollouts, failures } = await ended(await start(id, request));
    assert.deepEqual(placesOf(rollouts), ['0-0', '0-1', '0-2 for 0', '1-0', '1-2 for 1']);
    assert.deepEqual(placesOf(failures), ['1-1']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 6, completed: 5, failed: 1 });
    assert.equal(result.metrics['replaced/count'], 1);
    // All generated tokens were in the journals.
    assert.equal(bed.engine.requests(id).length, before);
  });

  test('that runs as slices passes on what a slice has not used', async () => {
    const id = 'slices';
    const { opened, open } = gate();
    const fails = new Set(['1-0', '1-1', '1-2', '1-3']);
    script(id, { turns: 1, fails, held: new Map([['1-150', opened]]) });
    const request = requestOf({ samples: 2, num_repeats: 151, max_replacements: 3 });
    const batch = await start(id, { ...request, max_in_flight: 24 });
    const { client } = bed.server;
    await untilStep(id, '1-150/0');
    await within(
      'the end of the first slice',
      client.workflow.getHandle(`${id}/rows-0-0`).result(),
    );
    await untilStep(id, '1-153/0');
    open();
    const { result, failures, rollouts } = await ended(batch);
    assert.deepEqual(failures.map(placeOf), ['1-0', '1-1', '1-2', '1-3']);
    assert.deepEqual(result?.counts, { ...NONE, requested: 305, completed: 301, failed: 4 });
    assert.deepEqual(rollouts.slice(-3).map(placeOf), ['1-151', '1-152', '1-153']);
    assert.equal(result.metrics['replaced/count'], 3);
  });

  test('has histories that replay', async () => {
    const codePath = path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js');
    Runtime.install({ logger: new DefaultLogger('WARN') });
    for (const id of ['replaced', 'stopped', 'slices', 'slices/rows-0-0', 'slices/rows-1-1']) {
      const history = await bed.server.client.workflow.getHandle(id).fetchHistory();
      assert.ok((history.events?.length ?? 0) < 5000);
      await Worker.runReplayHistory({ workflowBundle: { codePath } }, history, idIn(history));
    }
  });
});
