import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { startInteropBed } from '../../test/interop/batch-bed.js';
import { keepEngine } from '../../test/interop/engine-process.js';
import type { Said, TensorTrainer } from '../../test/interop/tensor-trainer.js';
import { startTensorTrainer } from '../../test/interop/tensor-trainer.js';
import { makeCheckpoint } from '../../test/interop/torch-logprobs.js';
import { median } from './measure.js';
import { machine, table } from './report.js';

/**
 * Seconds for which streams of a real vLLM stand still while a trainer sends its weights: by `policy.transfer`, and by a
 * bare loop (pause, send, resume), by turns on one engine. `[rounds] [updates]`; needs ROLLOUT_INTEROP_START.
 */

const [rounds = 2, updates = 10] = process.argv.slice(2).map(Number);
const STREAMS = 8;
const FIRST_SEED = 21;
const STORE = 'bench';
const LIMIT_MS = 400_000;
const MOST_FAILURES = 20;
/** Seconds a token, at least: an engine on a CPU otherwise leaves no time of it to anybody. */
const PACE = 0.02;

const WAYS = {
  'a bare loop': { is_ours: false, options: {} },
  '`policy.transfer`': { is_ours: true, options: {} },
  'without a probe': { is_ours: true, options: { probe: null } },
};
type Way = keyof typeof WAYS;

/** Streams that are there all the time, and when each of their tokens came, in seconds since 1970. */
function openStreams(base_url: string) {
  const ending = new AbortController();
  const arrivals: number[][] = [];
  const isEnding = (): boolean => ending.signal.aborted;
  let failures = 0;
  const one = async (times: number[]): Promise<void> => {
    while (!isEnding()) {
      try {
        await stream(times);
      } catch (error) {
        // A server under load closes connections that the next request finds open.
        failures += 1;
        if (!isEnding() && failures > MOST_FAILURES) throw error;
      }
    }
  };
  const stream = async (times: number[]): Promise<void> => {
    const body = {
      model: 'tiny',
      prompt: [5, 6, 7, 8],
      max_tokens: 480,
      ignore_eos: true,
      stream: true,
    };
    const answer = await fetch(`${base_url}/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: ending.signal,
    });
    for await (const chunk of answer.body!)
      if ((chunk as Uint8Array).length > 0) times.push(Date.now() / 1000);
  };
  const open = Array.from({ length: STREAMS }, () => {
    const times: number[] = [];
    arrivals.push(times);
    return one(times);
  });
  return {
    /** The longest gap of a stream that an update fell into, as the middle one of all streams. */
    stall: ({ began, ended }: { began: number; ended: number }): number => {
      const gaps = arrivals.map((times) => {
        const first = Math.max(
          1,
          times.findIndex((at) => at >= began),
        );
        const last = times.findIndex((at) => at > ended + 0.5);
        const within = times.slice(first - 1, last === -1 ? undefined : last);
        return Math.max(...within.slice(1).map((at, i) => at - within[i]!));
      });
      return median(gaps);
    },
    end: async () => {
      ending.abort();
      await Promise.all(open);
    },
  };
}

const seconds = (s: number): string => s.toFixed(2);

async function measured(
  trainer: TensorTrainer,
  { way, url, folders }: { way: Way; url: string; folders: string[] },
): Promise<Said[]> {
  const { is_ours, options } = WAYS[way];
  const bare = is_ours ? {} : { bare: url.replace(/\/v1$/, '') };
  const running = await trainer.order({ times: updates, folders, options, ...bare });
  const said = await running.over(LIMIT_MS);
  const fault = said.find((one) => one.fault !== undefined)?.fault;
  if (fault !== undefined) throw new Error(`${way}: ${fault}`);
  // The first makes the connection.
  return said.filter((one) => one.update !== undefined && one.update > 0);
}

async function main(): Promise<void> {
  const engine = await keepEngine('bench-transfer', {
    env: { TINY_VLLM_NO_ADAPTER: '1', TINY_VLLM_TRANSFER: '1' },
  });
  const bed = await startInteropBed({ name: 'bench-transfer', base_url: engine.base_url });
  try {
    const folders = [1, 2].map((seed) => path.join(engine.directory, `checkpoint-${seed}`));
    for (const [i, folder] of folders.entries()) makeCheckpoint(folder, FIRST_SEED + i);
    await bed.bed.startWorker(STORE);
    const trainer = await startTensorTrainer(bed.bed.server(), STORE);
    await engine.pace(PACE);
    const streams = openStreams(engine.base_url);
    await sleep(3000);
    const all = new Map<Way, Said[]>();
    for (let round = 0; round < rounds; round++)
      for (const way of Object.keys(WAYS) as Way[]) {
        const said = await measured(trainer, { way, url: engine.base_url, folders });
        all.set(way, [...(all.get(way) ?? []), ...said]);
        console.error(
          `${way}, round ${round}: ${said.map(({ began = 0, ended = 0 }) => seconds(ended - began)).join(' ')} s`,
        );
      }
    await sleep(1000);
    const rows = [...all].map(([way, said]) => {
      const times = said.map(({ began = 0, ended = 0 }) => ({ began, ended }));
      const stalls = times.map((one) => streams.stall(one));
      const walls = times.map(({ began, ended }) => ended - began);
      const paused = said.map(({ paused_s = NaN }) => paused_s);
      const figures = [median(paused), median(stalls), Math.max(...stalls), median(walls)];
      return [way, String(said.length), ...figures.map(seconds)];
    });
    await streams.end();
    await trainer.end();
    const head = [
      'way',
      'updates',
      'paused, median s',
      'streams stand still, median s',
      'longest s',
      'whole update, median s',
    ];
    console.log(`${machine()}.\n\n${table(head, rows)}`);
  } finally {
    await bed.end();
    await engine.end();
  }
}

await main();
