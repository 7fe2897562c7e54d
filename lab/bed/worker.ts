import { access, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { z } from 'zod';
import type { Exit } from '../../dev/child.js';
import { startChild } from '../../dev/child.js';
import { stackEnvironment } from '../../dev/stack-environment.js';
import type { Config } from '../../src/workers/config.js';
import { PROJECT_ROOT } from './server.js';
import { untilStarted } from './started-child.js';
import { within } from './waiting.js';

/** Content of temporal.yaml. */
export type WorkerConfig = z.input<typeof Config>;

export interface WorkerProcess {
  pid: number;
  exited: Promise<Exit>;
  /** Its output so far. */
  log: () => Promise<string>;
  /** SIGTERM, then SIGKILL after 8 s. Does nothing for an ended process. */
  stop: () => Promise<void>;
  /** Sends a signal that ends it, and waits for its end. */
  kill: (signal: 'SIGKILL' | 'SIGTERM') => Promise<Exit>;
  /** Freezes it until `resume`; it keeps its connections and tasks. */
  pause: () => void;
  resume: () => void;
}

export interface WorkerOptions {
  /** For its settings and its log, `<name>.yaml` and `<name>.log`. */
  directory: string;
  config: WorkerConfig;
  /** Name, for several in one directory. */
  name?: string;
  /** Variables beside those of this process. */
  env?: Record<string, string>;
  /** A built project in place of this one. */
  project_root?: string;
  /** Its log goes through a pipe, so a limit on the size of its files does not apply to the log. */
  pipe_log?: boolean;
  /** Hard limit of files and connections. */
  open_files?: number;
}

/** Replaces the shell with the given program, under the same process id. `cat` ends with it. */
const PIPED = 'exec "$@" > >(exec cat) 2>&1';
/** Likewise, under a limit of open files that is given in the place of the shell's own name. */
const LIMITED = 'ulimit -n "$0" && exec "$@"';

/**
 * Starts `temporal-rollout worker` and waits until it reports that it has started. It ends with this process, however
 * that ends.
 */
export async function startWorkerProcess({
  directory,
  config,
  name = 'worker',
  env = {},
  project_root = PROJECT_ROOT,
  pipe_log = false,
  open_files,
}: WorkerOptions): Promise<WorkerProcess> {
  const main = path.join(project_root, 'dist', 'src', 'cli', 'main.js');
  await access(main).catch(() => {
    throw new Error(`${main} is missing: build it with \`node tools/setup.mjs\``);
  });
  const settings = path.join(directory, `${name}.yaml`);
  const logFile = path.join(directory, `${name}.log`);
  // JSON is YAML.
  await writeFile(settings, JSON.stringify(config, null, 2));
  const unlimited = [process.execPath, main, 'worker', '--config', settings];
  const program =
    open_files === undefined
      ? unlimited
      : ['bash', '-c', LIMITED, String(open_files), ...unlimited];
  const [command = '', ...args] = pipe_log ? ['bash', '-c', PIPED, 'worker', ...program] : program;
  const child = await startChild({
    command,
    args,
    cwd: directory,
    env: { ...stackEnvironment(process.env), LOG_LEVEL: 'info', ...env },
    logFile,
    ends: 'pipe',
  });
  const log = (): Promise<string> => readFile(logFile, 'utf8');
  const { ended } = await untilStarted(child, {
    what: 'the worker',
    logFile,
    look: async () => (await log()).includes('"worker started"'),
  });
  const send = (signal: NodeJS.Signals): void => {
    if (ended() === null) process.kill(child.pid, signal);
  };
  return {
    pid: child.pid,
    exited: child.exited,
    log,
    stop: async () => {
      if (ended() === null) await child.stop();
    },
    kill: (signal) => {
      send(signal);
      return within('the worker to end', child.exited);
    },
    pause: () => {
      send('SIGSTOP');
    },
    resume: () => {
      send('SIGCONT');
    },
  };
}
