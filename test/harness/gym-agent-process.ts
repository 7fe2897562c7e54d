import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { z } from 'zod';
import type { AgentScript } from '../servers/gym-agent-script.js';
import type { AgentEvent } from '../servers/gym-agent-server.js';
import { readAgentEvents } from '../servers/gym-agent-server.js';
import { within } from '../../lab/bed/waiting.js';

/** An agent server as its own process, which can be killed and restarted on the same port. */
export interface GymAgentProcess {
  /** Stays the same after a restart. */
  url: string;
  /** The calls of `/run` so far, across restarts. */
  events: () => AgentEvent[];
  /** kill -9; resolves when it has ended. Does nothing for an ended process. */
  kill: () => Promise<void>;
  /** On the same port, with the same log; resolves when it listens. */
  start: () => Promise<void>;
}

export interface GymAgentProcessOptions {
  /** For its script and its log, `<name>.json` and `<name>.jsonl`. */
  directory: string;
  script: z.input<typeof AgentScript>;
  name?: string;
}

const MAIN = path.join(import.meta.dirname, '../servers/gym-agent-main.js');

/** Resolves when it listens. */
export async function startGymAgentProcess({
  directory,
  script,
  name = 'gym-agent',
}: GymAgentProcessOptions): Promise<GymAgentProcess> {
  const scriptFile = path.join(directory, `${name}.json`);
  const logFile = path.join(directory, `${name}.jsonl`);
  await writeFile(scriptFile, JSON.stringify(script));
  let life = await startLife({ port: '0', scriptFile, logFile });
  const { url } = life;
  return {
    url,
    events: () => readAgentEvents(logFile),
    kill: () => life.kill(),
    start: async () => {
      life = await startLife({ port: new URL(url).port, scriptFile, logFile });
    },
  };
}

async function startLife(options: { port: string; scriptFile: string; logFile: string }) {
  const { port, scriptFile, logFile } = options;
  const child = spawn(process.execPath, [MAIN, port, scriptFile, logFile], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const listens = once(createInterface({ input: child.stdout }), 'line');
  const ended = exited.then(([code]) => {
    throw new Error(`the agent server ended with ${String(code)}`);
  });
  ended.catch(() => undefined);
  const kill = async (): Promise<void> => {
    child.kill('SIGKILL');
    await exited;
  };
  try {
    const [url] = (await within('the agent server to listen', Promise.race([listens, ended]))) as [
      string,
    ];
    return { url, kill };
  } catch (error) {
    await kill();
    throw error;
  }
}
