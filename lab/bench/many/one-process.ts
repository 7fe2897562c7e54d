import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { createPlayer } from '../../../test/harness/played-batch.js';
import { startSimulatorProcess } from '../../bed/simulator.js';
import { table } from '../report.js';
import { puzzleSamples } from '../samples.js';
import { REPEATS } from './play.js';

/**
 * `node --expose-gc --import tsx lab/bench/many/one-process.ts [rollouts]`, after `npm run build`: the activities of a
 * worker, its store and its connections, without Temporal. All first turns are held, so all rollouts wait for the
 * engine at once; then each plays its turn.
 */

const rollouts = Number(process.argv[2] ?? 2000);
const { gc } = globalThis;
if (!(rollouts > 0 && rollouts % REPEATS === 0) || gc === undefined) {
  console.error(`expected --expose-gc, and a multiple of ${REPEATS} rollouts`);
  process.exit(2);
}

const collected = (): NodeJS.MemoryUsage => {
  gc();
  gc();
  return process.memoryUsage();
};
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};

const folder = await mkdtemp(path.join(tmpdir(), 'bench-many-'));
const settings = { skill: 0, max_num_seqs: 100_000, thinking_tokens: 0, ms_to_first_token: 6000 };
const simulator = await startSimulatorProcess({
  directory: folder,
  port: 0,
  settings,
  logs: false,
});
const samples = puzzleSamples(rollouts / REPEATS).map((sample) => `${JSON.stringify(sample)}\n`);
await writeFile(path.join(folder, 'samples.jsonl'), samples.join(''));
const player = await createPlayer({
  store: { root: path.join(folder, 'trajectories') },
  inputs_dir: folder,
  generation: {
    default: {
      kind: 'vllm',
      base_urls: [`${simulator.url}/v1`],
      first_token_timeout: '1h',
      max_concurrent: rollouts,
    },
  },
  environments: { sliding_puzzle: { kind: 'sliding_puzzle' } },
  worker: { memory: '64GiB', max_generations: rollouts },
});

const held = async (): Promise<number> => {
  const text = await (await fetch(`${simulator.url}/simulator/faults`)).text();
  return Number(/"hits":(\d+)/.exec(text)?.[1] ?? 0);
};

try {
  await simulator.inject({ fault: 'hold', times: null });
  const [before, cpuBefore] = [collected(), cpuMs()];
  const played = player.playBatch('many', {
    samples: { path: 'samples.jsonl' },
    num_repeats: REPEATS,
    generation: { max_new_tokens: 512, seed: 17 },
    max_rollout_turns: 1,
    max_in_flight: rollouts,
  });
  while ((await held()) < rollouts) await sleep(500);
  const [waiting, cpuWaiting] = [collected(), cpuMs()];
  const { length: files } = await readdir('/proc/self/fd');
  await simulator.clearFaults();
  const { result, failure } = await played;
  const completed = result?.counts.completed ?? 0;
  if (completed !== rollouts)
    throw new Error(`expected ${rollouts} rollouts, got ${completed}: ${failure?.message ?? ''}`);
  const kib = (what: 'heapUsed' | 'rss'): string =>
    ((waiting[what] - before[what]) / rollouts / 1024).toFixed(0);
  const each = (ms: number): string => (ms / rollouts).toFixed(2);
  console.log(
    table(
      [
        'rollouts that wait',
        'KiB of heap each',
        'KiB resident each',
        'open files',
        'CPU ms each until it waits',
        'CPU ms each from then on',
      ],
      [
        [
          String(rollouts),
          kib('heapUsed'),
          kib('rss'),
          String(files),
          each(cpuWaiting - cpuBefore),
          each(cpuMs() - cpuWaiting),
        ],
      ],
    ),
  );
} finally {
  await player.close();
  await simulator.stop();
  await rm(folder, { recursive: true, force: true });
}
