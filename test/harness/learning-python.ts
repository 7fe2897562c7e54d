import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import {
  exampleCommand,
  LEARNING_EXAMPLE,
  learningInstall,
} from '../../lab/demos/learning/example.js';

/** Why the example that learns cannot run here; false: it can. */
export const noLearningExample: string | false = existsSync(learningInstall(process.env).stamp)
  ? false
  : 'what the example needs is not installed: `node tools/setup.mjs --test` says why';

/** Runs the example's Python, or another one, with these arguments; returns its output. */
export function learningPython(args: string[], python?: string): string {
  const { command, ...options } = exampleCommand({ args, python }, process.env);
  const env = { ...options.env, PYTHONPATH: `${options.env.PYTHONPATH}:${LEARNING_EXAMPLE}` };
  const run = spawnSync(command, args, { ...options, env, encoding: 'utf8', timeout: 280_000 });
  assert.equal(run.status, 0, `${run.stdout}${run.stderr}`);
  return `${run.stdout}${run.stderr}`;
}
