/**
 * Records what a release leaves behind in a store, for the tests of all later ones: `node --import tsx
 * test/releases/record.ts 0.1.0` (a minute, with `dist` built). Real workers and simulators play it, and are killed,
 * cut and given new weights on the way.
 */
import { cp, mkdir, readFile, readdir, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { z } from 'zod';
import type { BatchRequest } from '../../src/model/batch-request.js';
import { startSimulator } from '../../simulator/server.js';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { createPlayer } from '../harness/played-batch.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { startWithoutPenalties } from '../servers/without-penalties.js';

type Request = z.input<typeof BatchRequest>;

const [version = ''] = process.argv.slice(2);
if (!/^\d+\.\d+\.\d+$/.test(version))
  throw new Error(`expected a version as 0.1.0, got ${JSON.stringify(version)}`);
const STORE = path.join(PROJECT_ROOT, 'test', 'releases', version, 'store');

const SIMULATOR = { tokens_per_second: 30, thinking_tokens: [16, 28] as [number, number] };

function request(samples: number, { generation, ...more }: Partial<Request> = {}): Request {
  return puzzleRequest(
    { samples, num_repeats: 1 },
    {
      generation: { max_new_tokens: 48, seed: 3, ...generation },
      max_rollout_turns: 4,
      rollout_timeout: '5m',
      ...more,
    },
  );
}

/** Where a stop string ends a stream, it ends before its last chunk names the weights. */
const withoutStops = (given: Request): Request => ({
  ...given,
  samples: (given.samples as Record<string, unknown>[]).map((sample) => ({
    ...sample,
    stop_strings: null,
  })),
});

/** Played at once, before anybody publishes weights. */
const UNPUBLISHED: Record<string, Request> = {
  plain: request(4),
  stops: request(3, {
    generation: { stop_strings: [' so ', '→'], min_tokens: 4, top_logprobs: 2 },
  }),
};

async function keep(bed: PolicyBed, id: string): Promise<void> {
  const folder = path.dirname(bed.journals(id));
  await cp(folder, path.join(STORE, id), { recursive: true });
}

async function outcome(bed: PolicyBed, id: string): Promise<void> {
  const { result, failure } = await bed.batch(id).outcome();
  if (failure !== null || result?.counts.completed !== result?.counts.requested)
    throw new Error(`batch ${id} ended with ${JSON.stringify(failure ?? result)}`);
}

/** Kills of the worker, cut streams, and logprobs that are none. */
async function recordUnpublished(): Promise<void> {
  const bed = await startPolicyBed({
    name: 'record-unpublished',
    own_server: true,
    simulator: SIMULATOR,
  });
  try {
    for (const [id, one] of Object.entries(UNPUBLISHED)) await bed.batch(id).start(one);
    await sleep(2000);
    for (const engine of bed.engines) {
      await engine.process().inject({ fault: 'cut', after_tokens: 9, times: 2 });
      await engine.process().inject({ fault: 'nan_logprob', at_token: 5, times: 1 });
    }
    await bed.worker.kill();
    await sleep(4000);
    await bed.worker.kill();
    for (const id of Object.keys(UNPUBLISHED)) await outcome(bed, id);
    for (const id of Object.keys(UNPUBLISHED)) await keep(bed, id);

    await bed.batch('unfinished').start(request(3));
    await sleep(4000);
    await bed.worker.kill(() => keep(bed, 'unfinished'));
    await bed.batch('unfinished').handle().terminate();
  } finally {
    await bed.end();
  }
}

/** Settings that no engine continues: a turn that is cut starts over. */
async function recordPenalties(): Promise<void> {
  const settings = { ...SIMULATOR, faults: [{ fault: 'cut' as const, after_tokens: 9, times: 3 }] };
  const simulator = await startSimulator({ settings, port: 0 });
  const engine = await startWithoutPenalties(simulator.url);
  const player = await createPlayer({
    store: { kind: 'file', root: STORE },
    inputs_dir: PROJECT_ROOT,
    generation: { default: { kind: 'vllm', base_urls: [`${engine.url}/v1`] } },
    environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
  });
  const generation = { presence_penalty: 0.5, frequency_penalty: 0.25 };
  const { failure, failures } = await player.playBatch('penalties', request(3, { generation }));
  await player.close();
  await engine.close();
  await simulator.close();
  if (failure !== null || failures.length > 0)
    throw new Error(`penalties: ${JSON.stringify(failure ?? failures)}`);
}

async function publish(bed: PolicyBed, number: number): Promise<void> {
  const trainer = await bed.startTrainer(await bed.weights(number));
  const { code } = await trainer.exited;
  if (code !== 0) throw new Error(`the publication of version ${number} ended with code ${code}`);
}

/** Updates of weights while rollouts play. With `scale_out` the engine names the weights of each token. */
async function recordPublished(
  batches: Record<string, Request>,
  { scale_out }: { scale_out: boolean },
): Promise<void> {
  const bed = await startPolicyBed({
    name: 'record-published',
    own_server: true,
    simulator: { ...SIMULATOR, scale_out, tokens_per_second: scale_out ? 12 : 30 },
    generation: { wire: scale_out ? 'generate' : 'completions' },
  });
  try {
    await publish(bed, 1);
    for (const [id, one] of Object.entries(batches)) await bed.batch(id).start(one);
    await sleep(500);
    await publish(bed, 2);
    await sleep(700);
    await bed.worker.kill();
    await sleep(2500);
    await publish(bed, 3);
    for (const id of Object.keys(batches)) await outcome(bed, id);
    for (const id of Object.keys(batches)) await keep(bed, id);
  } finally {
    await bed.end();
  }
}

/** Results name their files by paths of this machine. */
async function leaveOutPaths(): Promise<void> {
  for (const id of await readdir(STORE)) {
    const file = path.join(STORE, id, 'metrics.json');
    const text = await readFile(file, 'utf8').catch(() => null);
    if (text !== null)
      await writeFile(
        file,
        text.replaceAll(/"[^"]+(?=\/[\w.-]+\/[\w.-]+\.jsonl?")/g, '"/srv/store'),
      );
  }
}

await rm(STORE, { recursive: true, force: true });
await mkdir(STORE, { recursive: true });
await recordPenalties();
await recordUnpublished();
await recordPublished({ named: withoutStops(request(2)) }, { scale_out: true });
await recordPublished(
  { moved: request(3), one_version: request(2, { max_version_span: 1 }) },
  { scale_out: false },
);
await leaveOutPaths();
await rm(path.join(STORE, '_store'), { recursive: true, force: true });
