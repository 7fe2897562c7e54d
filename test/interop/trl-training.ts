/** A training by `train.py` on a stack with TRL. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import type { Program, TrlBed } from './trl-bed.js';

/** As many as `train.py` plays by itself. */
export const STEPS = 3;

interface Line {
  /** Rollouts of this step are asked for. */
  asked?: number;
  step?: number;
  furthest?: number;
  columns?: { rollout_id: string[]; completion_ids: number[][]; env_mask: number[][] };
}

/** A trainer on a stack, and what it has written down. */
export function onBed(bed: () => TrlBed) {
  const folderOf = (name: string): string => path.join(bed().bed.directory, name);
  const train = (name: string, ...more: string[]): Program => {
    const place = ['--folder', folderOf(name), '--store', bed().bed.store_root];
    return bed().run('train.py', [...place, '--model', bed().model, '--run', name, ...more]);
  };
  const trained = async (name: string, ...more: string[]): Promise<string> => {
    const { said, ended } = train(name, ...more);
    assert.equal(await ended, 0, said.join('\n'));
    return said.join('\n');
  };
  const linesOf = (name: string): Line[] => {
    const file = path.join(folderOf(name), 'steps.jsonl');
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : [];
    return lines.filter((line) => line !== '').map((line) => JSON.parse(line) as Line);
  };
  const stepsOf = (name: string): Line[] => linesOf(name).filter(({ step }) => step !== undefined);
  /** Of steps 0, 1, …, each once, with ratios of 1. */
  const assertTrained = (name: string): void => {
    const steps = stepsOf(name);
    console.log(name, { ratios: steps.map(({ furthest }) => furthest) });
    const expected = Array.from({ length: STEPS }, (_, step) => step);
    assert.deepEqual(
      steps.map(({ step }) => step),
      expected,
    );
    for (const { step, furthest } of steps)
      assert.ok(furthest! < 1e-4, `${name}, step ${step}: a ratio is ${furthest} away from 1`);
  };
  return { folderOf, train, trained, linesOf, stepsOf, assertTrained };
}
