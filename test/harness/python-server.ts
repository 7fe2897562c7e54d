import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { PROJECT_ROOT } from '../../lab/bed/server.js';
import { within } from '../../lab/bed/waiting.js';

/** `python -m rollout_environment`, which serves a Python object as an environment. */
export interface PythonServer {
  /** kill -9; resolves when it has ended. Does nothing for an ended process. */
  kill: () => Promise<void>;
}

export interface PythonServerOptions {
  /** Where the module is. */
  cwd: string;
  /** `module:Class`. */
  served: string;
  port: number;
  /** Variables beside those of this process. */
  env?: Record<string, string>;
}

/** Resolves when it listens. */
export async function startPythonServer(options: PythonServerOptions): Promise<PythonServer> {
  const { cwd, served, port, env = {} } = options;
  const child = spawn('python3', ['-m', 'rollout_environment', served, '--port', String(port)], {
    cwd,
    env: {
      ...process.env,
      ...env,
      PYTHONPATH: path.join(PROJECT_ROOT, 'python'),
      PYTHONDONTWRITEBYTECODE: '1',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const listens = once(createInterface({ input: child.stdout }), 'line');
  const ended = exited.then(([code]) => {
    throw new Error(`the Python server ended with ${String(code)}`);
  });
  ended.catch(() => undefined);
  try {
    await within('the Python server to listen', Promise.race([listens, ended]));
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  }
  return {
    kill: async () => {
      child.kill('SIGKILL');
      await exited;
    },
  };
}
