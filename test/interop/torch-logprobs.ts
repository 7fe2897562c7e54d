import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { KIND } from './engine.js';

const TINY = fileURLToPath(new URL(`tiny-${KIND}.sh`, import.meta.url));
const LIMIT_MS = 300_000;

interface Turn {
  prompt_ids: readonly number[];
  token_ids: readonly number[];
  temperature: number;
  /** The `data:` URLs of the pictures that its prompt has ids for, in order. */
  pictures?: readonly string[];
  /** The folder of its model; absent: the one of all turns. */
  checkpoint?: string;
}

/** A trainer's forward pass over these turns, with the engine's first weights or a checkpoint's. */
export function torchLogprobs(turns: readonly Turn[], checkpoint?: string): number[][] {
  const args = ['logprobs', ...(checkpoint === undefined ? [] : [checkpoint])];
  const run = spawnSync(TINY, args, {
    input: JSON.stringify(turns),
    timeout: LIMIT_MS,
    maxBuffer: 2 ** 28,
  });
  assert.equal(run.status, 0, run.stderr.toString());
  return JSON.parse(run.stdout.toString()) as number[][];
}

/** Writes an adapter for each seed into a folder of its own below `folder`, and beside it the model that has it. */
export function makeAdapters(folder: string, seeds: readonly number[]): void {
  const run = spawnSync(TINY, ['adapters', folder, ...seeds.map(String)], { timeout: LIMIT_MS });
  assert.equal(run.status, 0, run.stderr.toString());
}

/** Writes a model that takes pictures. */
export function makeVisionModel(folder: string, seed: number): void {
  const run = spawnSync(TINY, ['vision', folder, String(seed)], { timeout: LIMIT_MS });
  assert.equal(run.status, 0, run.stderr.toString());
}

/** Writes weights that torch draws from a seed, as a trainer writes them. */
/** `more`: for how many positions, where prompts are long. */
export function makeCheckpoint(folder: string, ...[seed, ...more]: number[]): void {
  const run = spawnSync(TINY, ['checkpoint', folder, String(seed), ...more.map(String)], {
    timeout: LIMIT_MS,
  });
  assert.equal(run.status, 0, run.stderr.toString());
}
