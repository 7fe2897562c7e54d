import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { open, rename, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { startCommand } from './engine.js';

/** vLLM compiles and loads for minutes before it listens. */
const STARTED_WITHIN_MS = 600_000;

interface EngineProcess {
  /** kill -9, of all that the command has started. */
  kill: () => Promise<void>;
}

/** The test's own engine, on the same port after each restart. */
export interface KeptEngine {
  base_url: string;
  /** For its files. */
  directory: string;
  /** How much longer each step of the model takes, from here on; of an engine that is sent weights over TCP alone. */
  pace: (seconds: number) => Promise<void>;
  /** kill -9. */
  kill: () => Promise<void>;
  /** Restarts a killed engine; resolves when it answers. */
  start: () => Promise<void>;
  /** Kills it and removes its directory. */
  end: () => Promise<void>;
}

/** `env` is added to this process's environment, `flags` to the command. */
export async function keepEngine(
  name: string,
  { env = {}, flags = [] }: { env?: Record<string, string>; flags?: readonly string[] } = {},
): Promise<KeptEngine> {
  const { path: directory, remove } = await makeTemporaryDirectory(name);
  const port = await freePort();
  const log_file = path.join(directory, 'engine.log');
  const { variables, pace } = paceIn(directory);
  const paced = { ...env, ...variables };
  const begin = (): Promise<EngineProcess> =>
    startEngine({ command: [startCommand(), ...flags].join(' '), port, log_file, env: paced });
  let engine = await begin();
  return {
    base_url: `http://127.0.0.1:${port}/v1`,
    directory,
    pace,
    kill: () => engine.kill(),
    start: async () => {
      engine = await begin();
    },
    end: async () => {
      await engine.kill();
      await remove();
    },
  };
}

/** How a test slows an engine down that has these variables. */
export function paceIn(directory: string): {
  variables: Record<string, string>;
  pace: KeptEngine['pace'];
} {
  const file = path.join(directory, 'pace');
  return {
    variables: { TINY_VLLM_PACE: file },
    pace: async (seconds) => {
      await writeFile(`${file}.next`, String(seconds));
      await rename(`${file}.next`, file);
    },
  };
}

/** Runs the command with PORT in its environment, in its own process group, and waits until it answers. */
async function startEngine({
  command,
  port,
  log_file,
  env,
}: {
  command: string;
  port: number;
  log_file: string;
  env: Record<string, string>;
}): Promise<EngineProcess> {
  const log = await open(log_file, 'a');
  const child = spawn('bash', ['-c', command], {
    env: { ...process.env, ...env, PORT: String(port) },
    stdio: ['ignore', log.fd, log.fd],
    detached: true,
  });
  await log.close();
  const { pid } = child;
  assert.ok(pid !== undefined, 'bash did not start');
  const exited = once(child, 'exit');
  const isOver = (): boolean => child.exitCode !== null || child.signalCode !== null;
  const kill = async (): Promise<void> => {
    process.off('exit', killGroup);
    killGroup();
    await exited;
  };
  function killGroup(): void {
    try {
      process.kill(-pid!, 'SIGKILL');
    } catch {
      // All of its processes have ended.
    }
  }
  process.once('exit', killGroup);
  for (const end = performance.now() + STARTED_WITHIN_MS; !(await answers(port));) {
    if (isOver() || performance.now() > end) {
      await kill();
      throw new Error(`the engine did not start: see ${log_file}`);
    }
    await sleep(500);
  }
  return { kill };
}

async function answers(port: number): Promise<boolean> {
  try {
    const { status } = await fetch(`http://127.0.0.1:${port}/health`, {
      signal: AbortSignal.timeout(2000),
    });
    return status === 200;
  } catch {
    return false;
  }
}

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}
