import type { TestContext } from 'node:test';
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import {
  graderCommand,
  type GraderCommand,
} from '../../../src/environments/math/grader-install.js';
import {
  createGraderPool,
  installedGrader,
  type GraderPool,
  type GraderPoolOptions,
} from '../../../src/environments/math/grader-pool.js';

/** null where this machine has no grader: the tests that need the real one say so and are skipped. */
export const installed: GraderCommand | null = graderCommand(process.env);

export const skip =
  installed === null ? 'no maths grader on this machine: it needs Python 3.10 or later' : false;

/** Of this process; it says nothing. */
export const GIVEN = { env: process.env, say: () => undefined };

/** A pool that is closed when the test ends. */
export function poolFor(t: TestContext, options: Partial<GraderPoolOptions> = {}): GraderPool {
  const pool = createGraderPool({ ...installedGrader(GIVEN), ...options });
  t.after(() => pool.close());
  return pool;
}

const SCRIPT = fileURLToPath(new URL('scripted-grader.mjs', import.meta.url));

/**
 * A process that does what the answers tell it, in place of Python: see scripted-grader.mjs. `log` gets a line for
 * each process that starts.
 */
export function scripted(log: string, ...args: string[]): () => GraderCommand {
  if (!existsSync(SCRIPT)) throw new Error(`${SCRIPT} is missing`);
  return () => ({ program: process.execPath, args: [SCRIPT, log, ...args], env: {} });
}
