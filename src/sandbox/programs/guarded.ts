import { spawn } from 'node:child_process';
import path from 'node:path';
import { PROJECT_ROOT } from '../../platform/project-root.js';
import { spawned } from '../../platform/process/spawned.js';
import { within } from '../../platform/waits/abort.js';
import type { Python } from '../python.js';
import type { Command, Running } from './confinement.js';
import { createOutput } from './output.js';

/** A command under a guard, a process of its own that ends it and all that it has started (python/sandbox/command.py). */

interface Around {
  python: Python;
  /** The working directory. */
  cwd: string;
  /** Ends what a guard that was killed has left. */
  endStrays: () => Promise<void>;
}

const GUARD = path.join(PROJECT_ROOT, 'python', 'sandbox', 'command.py');
/** A guard needs less (python/rollout_environment/guard.py). */
const END_MS = 10_000;
/** Output may still be on its way when all has ended. */
const DRAIN_MS = 2000;

export async function startGuarded(
  { argv, env, input, most_output }: Command,
  { python, cwd, endStrays }: Around,
): Promise<Running> {
  const child = await spawned(
    spawn(python.executable, ['-I', GUARD, ...argv], {
      cwd,
      env,
      detached: true,
      stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe', 'pipe'],
    }),
  );
  const [stdin, stdout, stderr, lifeline] = child.stdio;
  if (stdout === null || stderr === null || lifeline == null)
    throw new Error('a command was started without its pipes');
  for (const stream of child.stdio) stream?.on('error', () => undefined);
  stdin?.end(input);
  const said = createOutput(most_output);
  stdout.on('data', said.stdout);
  stderr.on('data', said.stderr);
  const closed = new Promise<void>((resolve) => {
    child.once('close', () => {
      resolve();
    });
  });
  const exited = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once('exit', (code, signal) => {
      resolve({ code, signal });
    });
  });
  let killing: NodeJS.Timeout | undefined;
  const ended = exited.then(async (exit) => {
    clearTimeout(killing);
    lifeline.destroy();
    // A guard ends as its program does; one that was killed itself has ended nothing.
    if (exit.signal !== null) await endStrays();
    await within(DRAIN_MS, closed);
    for (const stream of [stdout, stderr]) stream.destroy();
    return { ...exit, excess: null, output: said.output(), is_cut: said.is_cut() };
  });
  return {
    ended,
    tail: said.tail,
    end: () => {
      lifeline.destroy();
      killing ??= setTimeout(() => child.kill('SIGKILL'), END_MS).unref();
    },
  };
}
