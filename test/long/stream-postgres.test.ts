/** A stream whose store is PostgreSQL: its steps are rows of a table and files of `outputs`, and both outlive kills. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import type { StepResult } from '../../src/activities/contract/stream.js';
import type { Simulator } from '../../simulator/server.js';
import { startSimulator } from '../../simulator/server.js';
import { migratePostgres } from '../../src/trajectories/postgres/open.js';
import { query } from '../../lab/bed/postgres-bed.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { faultOf, openStreamToTest } from '../../lab/bed/stream.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';
import type { WorkerProcess } from '../../lab/bed/worker.js';

const QUEUE = 'stream-postgres';
const SCHEMA = 'stream';

describe('a stream in PostgreSQL', { skip: noPostgres }, () => {
  let database: PostgresServer;
  let bed: Testbed;
  let simulator: Simulator;
  before(async () => {
    database = await startPostgres({ fsync: 'on' });
    bed = await startTestbed(QUEUE, {
      storeOf: (root) => ({
        kind: 'postgres',
        url_env: 'STORE_URL',
        schema: SCHEMA,
        outputs: { root },
      }),
    });
    const outputs = { root: bed.store_root };
    await migratePostgres({ url: database.url, schema: SCHEMA, max_connections: 2, outputs });
    const settings = { thinking_tokens: 8, skill: 1, seed: 1, tokens_per_second: 100 };
    simulator = await startSimulator({ settings, port: 0 });
  });
  after(async () => {
    await bed.end();
    await simulator.close();
    await database.stop();
  });

  const startWorker = (name: string): Promise<WorkerProcess> =>
    bed.startWorker({
      task_queue: QUEUE,
      name,
      env: { STORE_URL: database.url },
      generation: { default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] } },
      worker: { heartbeat_timeout: '2s' },
    });
  const hashOf = async ({ files }: StepResult): Promise<string> => {
    const hash = createHash('sha256');
    for (const file of Object.values(files)) hash.update(await readFile(file));
    return hash.digest('hex');
  };

  test('delivers each group once through kills of worker and database, the same when asked again, and forgets', async () => {
    const stream = openStreamToTest({
      client: () => bed.server.client,
      store_root: bed.store_root,
      id: 'tables',
      task_queue: QUEUE,
      factText: async (step) => {
        const where = `series = 'tables/steps' and n = ${step}`;
        const [row] = await query<{ fact: string }>(
          database.url,
          `select fact from "${SCHEMA}".fact where ${where}`,
        );
        return row!.fact;
      },
    });
    const request = {
      ...puzzleRequest({ samples: 5, num_repeats: 2 }, { max_rollout_turns: 3 }),
      groups_per_step: 2,
    };
    const first = await startWorker('first');
    await stream.start(request);
    const steps = [await stream.step(0, 0)];
    await first.kill('SIGKILL');
    await startWorker('second');
    steps.push(await stream.step(1, 1));
    await database.kill();
    const asked = stream.step(2, 2);
    await database.start();
    steps.push(await asked, await stream.step(3, 3));
    const hashes = await Promise.all(steps.map(hashOf));

    await stream.handle().signal('stop');
    await stream.handle().result();
    await stream.start(request);
    for (const [step, result] of steps.entries()) {
      assert.deepEqual(await stream.step(step), result);
      assert.equal(await hashOf(result), hashes[step]);
    }
    const groups = (await Promise.all([0, 1, 2, 3].map((step) => stream.rows(step))))
      .flat()
      .map(({ row }) => row);
    assert.equal(groups.length, 16);
    assert.equal(new Set(groups).size, 8);

    assert.deepEqual(await stream.forget(1), { kept_from: 2 });
    const kept = await query<{ name: string }>(
      database.url,
      `select distinct rollout as name from ${SCHEMA}.journal`,
    );
    const rowsOf = async (step: number): Promise<unknown[]> =>
      (await stream.rows(step)).map(({ row }) => row);
    const left = new Set<unknown>(kept.map(({ name }) => Number(/\/(\d+)-/.exec(name)?.[1])));
    for (const row of groups.slice(0, 8))
      assert.ok(!left.has(row), `journals of group ${String(row)}`);
    for (const row of await rowsOf(2)) assert.ok(left.has(row));
    assert.equal((await faultOf(stream.ask({ step: 1 }))).type, 'StepOutOfOrder');
    assert.equal((await stream.step(4, 4)).counts.completed, 4);
    await stream.handle().signal('stop');
    await stream.handle().result();
  });
});
