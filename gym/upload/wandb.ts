import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { z } from 'zod';
import { shortened } from '../../src/platform/errors.js';
import { plainLine } from '../../src/platform/plain.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { Exit } from '../../dev/child.js';
import { describeExit } from '../../dev/child.js';
import { lastLines, runCommand } from '../../src/platform/process/run-command.js';
import { spawned } from '../../src/platform/process/spawned.js';
import type { JsonObject } from '../json/exact.js';
import { formatJson } from '../json/exact.js';
import type { Exporter } from './exporter.js';
import { settingsIn, textIn } from './exporter.js';

export interface WandbSettings {
  /** `wandb_project` */
  project: string;
  /** `wandb_name` */
  run: string;
  /** `wandb_api_key` */
  key: string;
  /** Where the package keeps the run's files, below its own folder `wandb`. */
  dir: string;
}

/** Where the package runs. */
export interface WandbPlace {
  cwd: string;
  env: NodeJS.ProcessEnv;
}

/** Another Python that has the package. */
const PYTHON_VARIABLE = 'ROLLOUT_WANDB_PYTHON';
const SCRIPT = path.join(PROJECT_ROOT, 'python', 'upload', 'wandb_run.py');
const CHECK_MS = 60_000;
/** The package itself waits and tries again; a table of large results takes long. */
const CALL_MS = 3_600_000;
const MOST_WORDS = 300;
/** For what it said last, after its end. */
const LAST_WORDS_MS = 1000;

const pythonOf = (env: NodeJS.ProcessEnv): string => {
  const given = env[PYTHON_VARIABLE] ?? '';
  return given === '' ? 'python3' : given;
};

/** Rejects where the package is not installed, with the command that installs it. */
export async function checkWandb({ cwd, env }: WandbPlace): Promise<void> {
  const command = pythonOf(env);
  const args = [SCRIPT, '--check'];
  const { ok, problem, output } = await runCommand({
    command,
    args,
    cwd,
    env,
    timeoutMs: CHECK_MS,
  });
  if (ok) return;
  const said = output.trim() === '' ? problem : lastLines(output, 1);
  throw new Error(
    `wandb_project, wandb_name and wandb_api_key ask for an upload to W&B, which needs the Python package wandb, and ${command} cannot load it: ${said}. ` +
      `Install it with: ${command} -m pip install wandb. Or name a Python that has it with ${PYTHON_VARIABLE}, or leave these keys out`,
  );
}

/** Upstream's W&B exporter: its package, in a process of Python, with the same run, table and names. */
export function createWandbExporter(
  settings: WandbSettings,
  { say, signal, ...place }: WandbPlace & { say: (text: string) => void; signal: AbortSignal },
): Exporter {
  return {
    name: 'wandb',
    open: async (config) => {
      const { send, ask, end } = await startRun(settings.key, { ...place, say, signal });
      const { project, run: name, dir } = settings;
      try {
        await ask('open', formatJson({ project, name, dir, config }));
      } catch (error) {
        await end();
        throw error;
      }
      return {
        metrics: (values) => ask('metrics', JSON.stringify(Object.fromEntries(values))),
        rollouts: async (results) => {
          for await (const result of results) await send('rollout', JSON.stringify(result));
          await ask('rollouts', 'null');
        },
        close: () => ask('close', 'null').finally(end),
      };
    },
  };
}

/** The process that has the run. `given` is JSON. */
interface Run {
  /** Waits until there is room for more. */
  send: (call: string, given: string) => Promise<void>;
  /** Rejects with what the package says. */
  ask: (call: string, given: string) => Promise<void>;
  end: () => Promise<void>;
}

async function startRun(
  key: string,
  { cwd, env, say, signal }: WandbPlace & { say: (text: string) => void; signal: AbortSignal },
): Promise<Run> {
  const child = spawn(pythonOf(env), [SCRIPT], {
    cwd,
    env: { ...env, WANDB_API_KEY: key },
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
    // A separate group: Ctrl-C reaches only this process.
    detached: true,
    signal,
    killSignal: 'SIGKILL',
  });
  const exited = new Promise<Exit>((resolve) => {
    child.once('close', (code, by) => {
      resolve({ code, signal: by });
    });
    // What the package has started may keep its standard error open.
    child.once('exit', (code, by) => setTimeout(resolve, LAST_WORDS_MS, { code, signal: by }));
  });
  await spawned(child);
  const { stdin, stderr } = child as typeof child & { stdin: Writable; stderr: Readable };
  const answers = createInterface(child.stdio[3] as Readable)[Symbol.asyncIterator]();
  // It may end before it has read all; then nothing answers.
  stdin.on('error', () => undefined);
  let last = '';
  createInterface(stderr).on('line', (line) => {
    last = plainLine(line);
    say(last);
  });
  const gone = async (): Promise<never> => {
    const ended = `its process ended ${describeExit(await exited)}`;
    signal.throwIfAborted();
    throw new Error(last === '' ? ended : `${ended}: ${shortened(last, MOST_WORDS)}`);
  };
  const killLate = async <T>(work: Promise<T>): Promise<T> => {
    const timer = setTimeout(() => child.kill('SIGKILL'), CALL_MS);
    return await work.finally(() => {
      clearTimeout(timer);
    });
  };
  const send = async (call: string, given: string): Promise<void> => {
    if (stdin.destroyed) await gone();
    if (stdin.write(`["${call}",${given}]\n`)) return;
    await Promise.race([once(stdin, 'drain').catch(gone), exited.then(gone)]);
  };
  return {
    send,
    ask: async (call, given) => {
      await send(call, given);
      const answer = await killLate(answers.next());
      if (answer.done === true) return await gone();
      const problem = z.string().nullable().parse(JSON.parse(answer.value));
      if (problem !== null) throw new Error(shortened(problem, MOST_WORDS));
    },
    end: async () => {
      stdin.end();
      await killLate(exited);
    },
  };
}

/** The configuration of the exporter; a text says why it is incomplete; null: nothing is configured. */
export function wandbSettings(config: JsonObject, cwd: string): WandbSettings | string | null {
  const keys = ['wandb_project', 'wandb_name', 'wandb_api_key'] as const;
  const given = settingsIn(config, { server: 'W&B', keys, beside: 'wandb_api_key' });
  if (given === null || typeof given === 'string') return given;
  const { wandb_project: project, wandb_name: run, wandb_api_key: key } = given;
  const dir = path.resolve(cwd, textIn(config, 'results_dir') ?? 'results', 'wandb');
  return { project, run, key, dir };
}
