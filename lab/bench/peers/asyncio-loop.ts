import { spawn } from 'node:child_process';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';

/** A Python with the `openai` package; null: nobody named one. */
export const peersPython = (): string | null => process.env['PEERS_PYTHON'] ?? null;

const SCRIPT = path.join(PROJECT_ROOT, 'lab', 'bench', 'peers', 'asyncio_loop.py');

/** The loop as a process that plays a number of rollouts at a time. */
export interface AsyncioLoop {
  pid: number;
  /** Returns how many turns were played. */
  play(rollouts: number): Promise<number>;
  stop(): Promise<void>;
}

export async function startAsyncioLoop(url: string, turns: number): Promise<AsyncioLoop> {
  const python = peersPython();
  if (python === null)
    throw new Error('expected a Python with the `openai` package in PEERS_PYTHON, got none');
  const child = spawn(python, [SCRIPT, url, String(turns)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const { pid } = child;
  if (pid === undefined) throw new Error(`${python} cannot be started`);
  const exited = new Promise<void>((resolve) =>
    child.once('exit', () => {
      resolve();
    }),
  );
  const lines = createInterface(child.stdout)[Symbol.asyncIterator]();
  const answer = async (): Promise<{ turns?: number }> => {
    const line = (await lines.next()) as IteratorResult<string, undefined>;
    if (line.done === true)
      throw new Error(`${SCRIPT} ended with exit code ${child.exitCode ?? 'none'}`);
    return JSON.parse(line.value) as { turns?: number };
  };
  await answer();
  return {
    pid,
    play: async (rollouts) => {
      child.stdin.write(`${rollouts}\n`);
      return (await answer()).turns ?? 0;
    },
    stop: async () => {
      child.stdin.end();
      await exited;
    },
  };
}
