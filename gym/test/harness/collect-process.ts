import { spawn } from 'node:child_process';
import { stackEnvironment } from '../../../dev/stack-environment.js';
import { MAIN } from '../../../lab/bed/command.js';
import { within } from '../../../lab/bed/waiting.js';

/** `temporal-rollout collect` as a process. */
export interface CollectProcess {
  pid: number;
  /** Standard output and standard error, as they came. */
  output: () => string;
  /** The exit code; null: a signal ended it. */
  exited: Promise<number | null>;
  /** Sends a signal and waits for the end. */
  kill: (signal: 'SIGKILL' | 'SIGINT') => Promise<number | null>;
}

export interface CollectProcessOptions {
  cwd: string;
  args: readonly string[];
  env?: Record<string, string>;
  command?: 'collect' | 'collect-e2e';
}

export function startCollect({
  cwd,
  args,
  env = {},
  command = 'collect',
}: CollectProcessOptions): CollectProcess {
  const child = spawn(process.execPath, [MAIN, command, ...args], {
    cwd,
    env: { ...stackEnvironment(process.env), ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  // `close`: what it wrote last is read, too.
  const exited = new Promise<number | null>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', resolve);
  });
  return {
    pid: child.pid ?? 0,
    output: () => output,
    exited,
    kill: (signal) => {
      child.kill(signal);
      return within('collect to end', exited);
    },
  };
}

/** To its end. */
export async function collect(
  options: CollectProcessOptions,
): Promise<{ code: number | null; output: string }> {
  const collecting = startCollect(options);
  const wait = { what: 'the collection to end', timeout_ms: 20 * 60_000 };
  const code = await within(wait, collecting.exited).catch(async (error: unknown) => {
    await collecting.kill('SIGKILL');
    throw new Error(`${String(error)}\n${collecting.output()}`, { cause: error });
  });
  return { code, output: collecting.output() };
}
