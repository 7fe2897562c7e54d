/** A worker that cannot work says why, and what to do about it. */
import assert from 'node:assert/strict';
import { cp, rm, symlink } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { startSimulator } from '../../simulator/server.js';
import { startBatch } from '../../lab/bed/batch.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { workerBed } from '../harness/worker-bed.js';
import { startWorkerProcess } from '../../lab/bed/worker.js';

/** temporal.api.enums.v1.IndexedValueType.INDEXED_VALUE_TYPE_DOUBLE */
const DOUBLE = 4;

describe('a worker', () => {
  const { directory, server, config, refusal } = workerBed('worker-start', 'start');

  const settings: { what: string; change: object; says: RegExp }[] = [
    { what: 'an unknown key', change: { workers: 3 }, says: /workers: unknown field/ },
    {
      what: 'an unknown key of a service',
      change: {
        generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9/v1'], urls: [] } },
      },
      says: /generation\.default\.urls: unknown field/,
    },
    {
      what: 'an unknown kind of environment',
      change: { environments: { chess: { kind: 'chess' } } },
      says: /environments\.chess\.kind: unknown environment kind "chess"; known kinds: sliding_puzzle, math, .*http/,
    },
    {
      what: 'a base URL without /v1',
      change: { generation: { default: { kind: 'vllm', base_urls: ['http://127.0.0.1:9'] } } },
      says: /base_urls\.0: expected a base URL that ends in \/v1/,
    },
    {
      what: 'a secret that is not set',
      change: {
        generation: {
          default: {
            kind: 'vllm',
            base_urls: ['http://127.0.0.1:9/v1'],
            api_key_env: 'NO_SUCH_KEY',
          },
        },
      },
      says: /generation\.default\.api_key_env: expected the environment variable NO_SUCH_KEY to hold the key/,
    },
    {
      what: 'a memory size without unit',
      change: { worker: { memory: '1000' } },
      says: /worker\.memory: expected a size such as 64MiB or 1GiB/,
    },
    {
      what: 'a role twice',
      change: { worker: { roles: ['workflow', 'workflow'] } },
      says: /worker\.roles: expected each role once, got \["workflow","workflow"\]/,
    },
    {
      what: 'an environment on the queue of the turns',
      change: {
        environments: {
          chess: { kind: 'http', url: 'http://127.0.0.1:9', task_queue: 'start-generation' },
        },
      },
      says: /environments\.chess\.task_queue: expected a queue that nothing else is on, got "start-generation"/,
    },
  ];
  describe('beside others', { concurrency: 3 }, () => {
    for (const [i, { what, change, says }] of settings.entries()) {
      test(`with ${what} in temporal.yaml says so and ends`, async () => {
        assert.match(await refusal(`settings-${i}`, { config: config(change) }), says);
      });
    }

    test(
      'whose database has no tables or refuses its password says what helps and ends, without the password',
      { skip: noPostgres },
      async (t) => {
        const database = await startPostgres();
        t.after(() => database.stop());
        const refusedAt = (name: string, url: string): Promise<string> => {
          const store = { kind: 'postgres', url_env: 'DATABASE', outputs: { root: directory() } };
          return refusal(name, { config: config({ store }), env: { DATABASE: url } });
        };
        assert.match(
          await refusedAt('no-tables', database.url),
          /the worker ended with exit code 1[^]*PostgreSQL at [^]*: schema durable_rollouts has no tables of this store: run temporal-rollout store migrate/,
        );
        const wrong = database.url.replace(/:[^:@]*@/, ':not-the-password@');
        const said = await refusedAt('wrong-password', wrong);
        assert.match(
          said,
          /the worker ended with exit code 1[^]*password authentication failed[^]*: check user and password in the URL that store\.url_env or store\.url_file names/,
        );
        assert.ok(!said.includes('not-the-password'));
      },
    );

    test('that cannot make one of its Workers ends with the reason, whatever the others hold', async () => {
      const project_root = path.join(directory(), 'project');
      await cp(path.join(PROJECT_ROOT, 'dist'), path.join(project_root, 'dist'), {
        recursive: true,
      });
      for (const name of ['node_modules', 'package.json'])
        await symlink(path.join(PROJECT_ROOT, name), path.join(project_root, name));
      await rm(path.join(project_root, 'dist', 'src', 'workflow-bundle.js'));
      assert.match(
        await refusal('no-bundle', { config: config(), project_root }),
        /the worker ended with exit code 1[^]*ENOENT[^]*workflow-bundle\.js/,
      );
    });
  });

  test('registers the search attributes that the namespace lacks', async () => {
    const { operatorService } = server().client.connection;
    const { namespace } = server();
    await operatorService.removeSearchAttributes({
      namespace,
      searchAttributes: ['RolloutReward', 'RolloutTask'],
    });
    const worker = await startWorkerProcess({
      directory: directory(),
      config: config(),
      name: 'registers',
    });
    await worker.stop();
    const { customAttributes } = await operatorService.listSearchAttributes({ namespace });
    assert.equal(customAttributes['RolloutReward'], DOUBLE);
    assert.ok('RolloutTask' in customAttributes);
  });

  test('does without those that the namespace has no room for', async (t) => {
    const { operatorService } = server().client.connection;
    const { namespace } = server();
    await operatorService.removeSearchAttributes({
      namespace,
      searchAttributes: ['RolloutReward'],
    });
    const slots = ['Loss', 'Score', 'Step'].map((name) => [name, DOUBLE] as const);
    await operatorService.addSearchAttributes({
      namespace,
      searchAttributes: Object.fromEntries(slots),
    });
    const simulator = await startSimulator({ settings: {}, port: 0 });
    t.after(() => simulator.close());
    const generation = { default: { kind: 'vllm', base_urls: [`${simulator.url}/v1`] } };
    const worker = await startWorkerProcess({
      directory: directory(),
      config: config({ generation }),
      name: 'slots',
    });
    t.after(worker.stop);
    const place = { server: server(), store_root: directory(), task_queue: 'start' };
    const batch = await startBatch(
      { ...place, batch_id: 'unlisted' },
      puzzleRequest({ samples: 2, num_repeats: 1 }),
    );
    assert.equal((await batch.outcome()).failure, null);
    const { typedSearchAttributes } = await server()
      .client.workflow.getHandle('unlisted/0-0')
      .describe();
    const listed = typedSearchAttributes.getAll().map(({ key }) => key.name);
    assert.deepEqual(
      ['RolloutTask', 'RolloutOutcome', 'RolloutReward', 'RolloutTurns'].filter((name) =>
        listed.includes(name),
      ),
      ['RolloutTask', 'RolloutOutcome', 'RolloutTurns'],
    );
    assert.match(await worker.log(), /has no room for search attributes RolloutReward \(Double\)/);
  });
});
