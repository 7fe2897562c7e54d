import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import path from 'node:path';
import { stackEnvironment } from '../../dev/stack-environment.js';
import { PYTHON_PACKAGES, trainerInstall } from '../../dev/trainer-example.js';
import type { Child, ChildOptions } from '../../dev/child.js';
import { startChild } from '../../dev/child.js';
import { PROJECT_ROOT } from './server.js';

/** `temporal-rollout …` as its own process, without a terminal and with only the given arguments. */
export interface Command {
  /** Its output so far, both streams. */
  output: () => string;
  stdout: () => string;
  interrupt: () => void;
  exited: Promise<number | null>;
}

/** The command line as it is built: started from its source it would compile itself each time. */
export const MAIN = path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js');

/** Likewise with a log. It ends with this process, however that ends. */
export const startLogged = (
  args: readonly string[],
  {
    env = {},
    ends = 'pipe',
    ...options
  }: Pick<ChildOptions, 'cwd' | 'logFile'> & {
    env?: Record<string, string>;
    ends?: ChildOptions['ends'];
  },
): Promise<Child> =>
  startChild({
    ...options,
    ...{ command: process.execPath, args: [MAIN, ...args], ends },
    env: { ...stackEnvironment(process.env), ...env },
  });

export function startCommand(args: string[], node: string[] = []): Command {
  return start([process.execPath, ...node, MAIN, ...args], stackEnvironment(process.env));
}

const install = trainerInstall(process.env);
/** Why a test of the Python package is skipped; false: it is not. */
export const NO_PYTHON = existsSync(install.stamp) ? false : 'the Python package is not installed';

/** A program that imports `durable_rollouts`, whose client finds this server. */
export function startPython(
  program: string,
  {
    address,
    namespace,
    env = {},
  }: { address: string; namespace: string; env?: Record<string, string> },
): Command {
  return start([install.python, '-c', program], {
    ...stackEnvironment(process.env),
    PYTHONPATH: PYTHON_PACKAGES,
    PYTHONDONTWRITEBYTECODE: '1',
    TEMPORAL_ADDRESS: address,
    TEMPORAL_NAMESPACE: namespace,
    ...env,
  });
}

function start([program = '', ...args]: string[], env: NodeJS.ProcessEnv): Command {
  const child = spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
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
