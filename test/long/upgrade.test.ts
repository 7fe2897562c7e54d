/**
 * Running work under new workers, and under those of the release before again. RELEASE_BEFORE names a folder with that
 * release, built: `git worktree add ../before v0.1.0`, then `npm ci && npm run build` there.
 */
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { startBatch } from '../harness/batch.js';
import type { TestServer } from '../harness/dev-server.js';
import { PROJECT_ROOT, startOwnServer } from '../harness/dev-server.js';
import { checkJournals } from '../harness/played-turns.js';
import { puzzleRequest } from '../harness/puzzle-request.js';
import type { SimulatorProcess } from '../harness/simulator-process.js';
import { startSimulatorProcess } from '../harness/simulator-process.js';
import type { StreamToTest } from '../harness/stream-bed.js';
import { openStreamToTest } from '../harness/stream-bed.js';
import { makeTemporaryDirectory } from '../harness/temporary-directory.js';
import type { WorkerProcess } from '../harness/worker-process.js';
import { startWorkerProcess } from '../harness/worker-process.js';

const BEFORE = process.env['RELEASE_BEFORE'];
const skip =
  BEFORE === undefined && 'RELEASE_BEFORE names no folder with the release before, built';
/** Several turns, and more rollouts than a slice has. */
const BATCHES = {
  long: puzzleRequest({ samples: 4, num_repeats: 2 }, { max_rollout_turns: 16 }),
  slices: puzzleRequest(
    { samples: 70, num_repeats: 2 },
    { max_rollout_turns: 4, max_in_flight: 30 },
  ),
};
const STREAM = {
  ...puzzleRequest({ samples: 4, num_repeats: 2 }, { max_rollout_turns: 3 }),
  groups_per_step: 2,
};

describe('running work', { skip }, () => {
  let directory: string;
  let remove: () => Promise<void>;
  let server: TestServer;
  let simulator: SimulatorProcess;
  before(async () => {
    ({ path: directory, remove } = await makeTemporaryDirectory('upgrade'));
    server = await startOwnServer({ directory, db_file: null });
    const settings = { tokens_per_second: 40, thinking_tokens: 30, skill: 0.2 };
    simulator = await startSimulatorProcess({ directory, port: 0, settings });
  });
  after(async () => {
    await simulator.stop();
    await server.stop();
    await remove();
  });

  /** Everything that runs, in a store and at a task queue of its own. */
  function work(name: string) {
    const store_root = path.join(directory, name);
    const config = {
      temporal: { address: server.address, namespace: server.namespace, task_queue: name },
      store: { kind: 'file' as const, root: store_root },
      inputs_dir: PROJECT_ROOT,
      generation: { default: { kind: 'vllm' as const, base_urls: [`${simulator.url}/v1`] } },
      environments: { sliding_puzzle: { kind: 'sliding_puzzle' as const } },
      worker: { heartbeat_timeout: '4s', turn_slice: '1s' },
    };
    let workers = 0;
    const worker = (release: 'before' | 'new'): Promise<WorkerProcess> => {
      workers += 1;
      const of = { directory, config, name: `${name}-${workers}-${release}` };
      return startWorkerProcess({
        ...of,
        ...(release === 'before' && { project_root: BEFORE ?? '' }),
      });
    };
    const stream = openStreamToTest({
      client: () => server.client,
      store_root,
      id: `${name}-stream`,
      task_queue: name,
    });
    const start = () =>
      Promise.all(
        Object.entries(BATCHES).map(([id, request]) =>
          startBatch({ server, store_root, batch_id: `${name}-${id}`, task_queue: name }, request),
        ),
      );
    return { store_root, worker, stream, start };
  }

  type Started = Awaited<ReturnType<ReturnType<typeof work>['start']>>;

  /** Every batch has all of its rows, a step is a fact, and no turn was played twice. */
  async function ends({
    started,
    stream,
    store_root,
    step,
  }: {
    started: Started;
    stream: StreamToTest;
    store_root: string;
    step: string;
  }): Promise<void> {
    for (const { outcome, batch_id } of started) {
      const { result, failure } = await outcome();
      assert.equal(failure, null);
      assert.equal(result?.counts.completed, result?.counts.requested);
      await checkJournals(path.join(store_root, batch_id, 'journals'));
    }
    assert.equal((await stream.ask({ step: 1, wait: '1m' })).ready, true);
    assert.equal(await stream.hash(0), step, 'a step that was delivered has changed');
    await stream.handle().signal('stop');
    await stream.handle().result();
  }

  async function delivered(stream: StreamToTest): Promise<string> {
    await stream.start(STREAM);
    assert.equal((await stream.ask({ step: 0, wait: '1m' })).ready, true);
    return await stream.hash(0);
  }

  test('goes on when all workers are replaced, and back, and forth', async () => {
    const { worker, start, ...place } = work('replaced');
    let now = await worker('before');
    const started = await start();
    const step = await delivered(place.stream);
    for (const release of ['new', 'before', 'new'] as const) {
      await now.stop();
      now = await worker(release);
      await sleep(6000);
    }
    await ends({ started, step, ...place });
    await now.stop();
  });

  test('goes on when workers are replaced one by one', async () => {
    const { worker, start, ...place } = work('rolling');
    const old = [await worker('before'), await worker('before')];
    const started = await start();
    const step = await delivered(place.stream);
    const mine: WorkerProcess[] = [];
    for (const one of old) {
      mine.push(await worker('new'));
      await sleep(4000);
      await one.stop();
    }
    await ends({ started, step, ...place });
    for (const one of mine) await one.stop();
  });

  test('that was terminated continues when its ids are started again', async () => {
    const { worker, start, ...place } = work('terminated');
    const old = await worker('before');
    const first = await start();
    const step = await delivered(place.stream);
    await old.stop();
    for (const { handle } of first) await handle.terminate('upgrade');
    await place.stream.handle().terminate('upgrade');
    const mine = await worker('new');
    const started = await start();
    await place.stream.start(STREAM);
    await ends({ started, step, ...place });
    await mine.stop();
  });
});
