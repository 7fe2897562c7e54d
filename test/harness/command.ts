import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { stackEnvironment } from '../../src/dev/stack-environment.js';
import { PROJECT_ROOT } from './dev-server.js';

/** `temporal-rollout …` as its own process, without a terminal and with only the given arguments. */
export interface Command {
  /** Its output so far, both streams. */
  output: () => string;
  stdout: () => string;
  interrupt: () => void;
  exited: Promise<number | null>;
}

export function startCommand(args: string[], node: string[] = []): Command {
  const main = path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js');
  const child = spawn(process.execPath, [...node, main, ...args], {
    env: stackEnvironment(process.env),
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const said = { stdout: '', stderr: '' };
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      said[name] += text;
    });
  return {
    output: () => said.stdout + said.stderr,
    stdout: () => said.stdout,
    interrupt: () => child.kill('SIGINT'),
    exited: once(child, 'close').then(([code]) => code as number | null),
  };
}

/** Its standard output; throws the error output if it fails. */
export async function outputOf(args: string[], node: string[] = []): Promise<string> {
  const command = startCommand(args, node);
  const code = await command.exited;
  if (code === 0) return command.stdout();
  throw new Error(`temporal-rollout ${args.join(' ')} ended with ${code}: ${command.output()}`);
}
