import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { PolicyAnswers, PolicyUpdate } from '../../src/client/policy-client.js';
import { connectPolicy } from '../../src/client/policy-client.js';
import { onLoopback } from '../../src/client/server.js';
import type { RecoveryBatch } from '../../lab/bed/bed.js';
import { publish } from '../../lab/bed/policy-bed.js';
import { eventually } from '../../lab/bed/waiting.js';
import type { PauseMode } from '../../src/model/policy/orders.js';
import { settled } from '../harness/policy-cells.js';
import type { InteropBed } from './batch-bed.js';
import { midGeneration, REQUEST, startInteropBed } from './batch-bed.js';
import type { KeptEngine } from './engine-process.js';
import { keepEngine } from './engine-process.js';
import { KIND, suite, WITHOUT_START } from './engine.js';
import { compareWithTorch } from './labelled-turns.js';
import { makeAdapters, makeCheckpoint } from './torch-logprobs.js';

/** Weights and adapters of a real SGLang change while it samples; torch says which of them sampled a token. */

const TOLERANCE = 1e-4;
const ENDED_WITHIN_MS = 900_000;
const STORE = 'sglang-policy';
const HOLDER = { name: 'interop', incarnation: 'one' };

suite('a real SGLang whose weights change under rollouts', {
  skip: KIND === 'sglang' ? WITHOUT_START : 'the engine is no SGLang (ROLLOUT_INTEROP_KIND)',
  timeout: 3_600_000,
  tests: () => {
    let engine: KeptEngine;
    let interop: InteropBed;
    let worker: Awaited<ReturnType<InteropBed['bed']['startWorker']>>;
    let version = 0;
    /** Where torch finds what a version computes. */
    const folders = new Map<number, string>();

    before(async () => {
      engine = await keepEngine('interop-sglang', {
        env: { TINY_SGLANG_NO_ADAPTER: '1' },
        flags: [
          '--enable-lora --lora-backend torch_native --max-lora-rank 8 --lora-target-modules q_proj v_proj --max-loras-per-batch 3 --max-loaded-loras 3',
        ],
      });
      interop = await startInteropBed({ name: 'interop-sglang', base_url: engine.base_url });
      worker = await interop.bed.startWorker(STORE);
    });
    after(async () => {
      await interop.end();
      await engine.end();
    });

    const nextCheckpoint = (): string => {
      version += 1;
      const folder = path.join(engine.directory, `checkpoint-${version}`);
      makeCheckpoint(folder, version);
      folders.set(version, folder);
      return folder;
    };
    const update = <N extends PolicyUpdate>(name: N, input: object): Promise<PolicyAnswers[N]> =>
      ask((client) => client.update(name, input));
    const ask = async <T>(
      question: (client: Awaited<ReturnType<typeof connectPolicy>>) => Promise<T>,
    ): Promise<T> => {
      const client = await connectPolicy(onLoopback(interop.bed.server()), {
        service: 'default',
        task_queue: STORE,
      });
      return await question(client).finally(() => client.close());
    };
    const publishThis = (folder: string, mode: PauseMode) =>
      publish(interop.bed.server(), {
        version,
        weights: { kind: 'checkpoint', path: folder },
        mode,
        holder: HOLDER,
        task_queue: STORE,
      });
    const publishNext = (mode: PauseMode) => publishThis(nextCheckpoint(), mode);
    /** Each test can be played alone, but rollouts of weights without a version cannot be judged. */
    const publishFirst = async (): Promise<void> => {
      if (folders.size === 0) await publishNext('keep');
    };
    const play = async (id: string): Promise<RecoveryBatch> => {
      const batch = interop.bed.batch(STORE, id);
      const generation = { temperature: 1, max_new_tokens: 130, ignore_eos: true };
      await batch.start({ ...REQUEST, max_in_flight: 16, generation });
      await midGeneration(interop, { store: STORE, batch: id });
      return batch;
    };
    /** All rollouts are whole, and each token is what torch computes with the weights of its label. */
    const judge = async (batch: RecoveryBatch, what: string): Promise<void> => {
      const { rollouts, failures } = await batch.outcome(ENDED_WITHIN_MS);
      assert.deepEqual(failures, []);
      assert.equal(rollouts.length, REQUEST.samples.length);
      const { checked, furthest, versions } = compareWithTorch(
        rollouts,
        (one) => folders.get(one) ?? assert.fail(`no weights ${one}`),
      );
      console.log(what, { tokens: checked, furthest, versions: [...versions] });
      assert.ok(versions.has(String(version)), [...versions].join());
      assert.ok(versions.size > 1, 'no update fell into the batch');
      assert.ok(furthest < TOLERANCE, `a logprob differs by ${furthest}`);
    };

    test('adapters beside the weights that it began with, which pause nothing', async () => {
      await interop.bed.observed(async () => {
        const adapters = path.join(engine.directory, 'adapters');
        const all = [1, 2, 3];
        makeAdapters(adapters, all);
        for (const one of all) folders.set(one, path.join(adapters, `${one}-merged`));
        const bring = async () => {
          version += 1;
          return await publish(interop.bed.server(), {
            version,
            weights: { kind: 'lora', path: path.join(adapters, String(version)) },
            holder: HOLDER,
            task_queue: STORE,
          });
        };
        await bring();
        const batch = await play('adapters');
        for (let i = 0; i < 2; i++) {
          await sleep(2000);
          assert.equal((await bring()).paused_s, 0);
        }
        await judge(batch, 'adapters');
      });
    });

    for (const mode of ['keep', 'abort'] as const)
      test(`mode ${mode}: each token has the version whose weights torch finds it sampled with`, async () => {
        await interop.bed.observed(async () => {
          if (mode === 'keep') await publishNext(mode);
          const batch = await play(`checkpoint-${mode}`);
          const { paused_s } = await publishNext(mode);
          console.log({ mode, paused_s });
          await judge(batch, mode);
        });
      });

    test('a worker that is killed in an update leaves no token without its weights', async () => {
      await interop.bed.observed(async () => {
        await publishFirst();
        const batch = await play('killed-worker');
        const folder = nextCheckpoint();
        const again = () => publishThis(folder, 'keep');
        const first = settled(again());
        await worker.kill();
        await first;
        await eventually('the update to succeed', () => settled(again()));
        await judge(batch, 'killed worker');
      });
    });

    test('weights that a trainer brings by code of its own, under a label of its own', async () => {
      await interop.bed.observed(async () => {
        await publishFirst();
        const batch = await play('external');
        const {
          ticket,
          version: next,
          engines,
        } = await update('begin', {
          ...{ holder: HOLDER, version: version + 1, code: 'trainer', mode: 'keep' },
        });
        const model_path = nextCheckpoint();
        assert.equal(next, version);
        const [{ url, control_url } = assert.fail('no engine')] = engines;
        const body = { model_path, weight_version: 'step-4', flush_cache: false };
        const reply = await fetch(`${control_url}/update_weights_from_disk`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        });
        assert.equal(reply.status, 200, await reply.text());
        const { replicas } = await update('finish', {
          ...{ ticket, sent: [0], labels: { [url]: 'step-4' } },
        });
        assert.equal(replicas[url]?.state, 'current');
        await judge(batch, 'external');
      });
    });
  },
});
