import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import { describeError } from '../../platform/errors.js';
import { PROJECT_ROOT } from '../../platform/project-root.js';

/** Has `rollout_environment`, so that nothing has to be installed. */
const PACKAGES = path.join(PROJECT_ROOT, 'python');

const SERVED = /^.* on (http:\/\/\S+)$/;

/**
 * Serves a Python function or class, `module:name` from the current folder, for as long as this process lives. What the
 * code prints goes to standard error.
 */
export async function servePython(name: string, env: NodeJS.ProcessEnv) {
  const args = ['-m', 'rollout_environment', name, '--port', '0', '--quiet'];
  const paths = [PACKAGES, env['PYTHONPATH'] ?? ''].filter((one) => one !== '');
  const child = spawn('python3', [...args, '--parent', String(process.pid)], {
    env: { ...env, PYTHONPATH: paths.join(path.delimiter) },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = once(child, 'close').catch((cause: unknown) => {
    throw new Error(`python3 cannot be started: ${describeError(cause)}`);
  });
  const lines = createInterface(child.stdout);
  const said = (async () => {
    for await (const line of lines) {
      const [, url] = SERVED.exec(line) ?? [];
      if (url !== undefined) return url;
      process.stderr.write(`${line}\n`);
    }
    await ended;
    throw new Error(`--function ${name}: cannot be served; the lines above say why`);
  })();
  const url = await said;
  child.stdout.on('data', (data: Buffer) => process.stderr.write(data)).resume();
  return {
    url,
    end: async (): Promise<void> => {
      child.kill();
      await ended;
    },
  };
}
