import type { ChildProcessByStdio } from 'node:child_process';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import type { Level } from '../../../src/sandbox/levels.js';

const PROGRAM = fileURLToPath(new URL('short-lived-worker.js', import.meta.url));

export interface WorkerProcess {
  /** What this turn came to; throws once the process has ended. */
  said: () => Promise<string>;
  kill: () => Promise<void>;
  process: ChildProcessByStdio<null, Readable, null>;
}

/** A worker of its own that plays these rollouts, turn by turn, at this level. `through`: a command that becomes it. */
export function startWorkerProcess(
  { level, rollouts, through = [] }: { level: Level; rollouts: string[][]; through?: string[] },
  t: { after: (end: () => void) => void },
): WorkerProcess {
  const node = [process.execPath, PROGRAM, level, JSON.stringify(rollouts)];
  const [program = '', ...args] = [...through, ...node];
  const worker = spawn(program, args, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => worker.kill('SIGKILL'));
  const lines = createInterface({ input: worker.stdout })[Symbol.asyncIterator]();
  return {
    process: worker,
    async said() {
      const line = await lines.next();
      if (line.done === true) throw new Error('the worker ended before it said anything');
      return JSON.parse(line.value) as string;
    },
    async kill() {
      worker.kill('SIGKILL');
      if (worker.exitCode === null && worker.signalCode === null) await once(worker, 'exit');
    },
  };
}
