import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { parse } from 'yaml';
import type { Child, Exit } from '../../../dev/child.js';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { startLogged } from '../../bed/command.js';
import { descendantsWith, isRunning } from '../../bed/process-tree.js';
import { createEndings } from '../../bed/endings.js';
import { requestLogOf } from '../../bed/simulator.js';
import { makeTemporaryDirectory } from '../../bed/temporary-directory.js';
import { startUp } from '../../bed/up.js';
import { within } from '../../bed/waiting.js';

/** What is killed in turns, by the arguments that tell them apart. */
export const VICTIMS = {
  worker: 'main.js\0worker\0',
  simulator: 'main.js\0simulator\0',
  'Temporal server': 'server\0start-dev\0',
} as const;
export type Victim = keyof typeof VICTIMS;

/** `npm start` without its batch, as a process with the project's own settings. */
export interface KilledStack {
  directory: string;
  /** Of the running stack. */
  config: string;
  address: string;
  namespace: string;
  task_queue: string;
  store_root: string;
  /** null between its death and its next start. */
  pidOf: (victim: Victim) => number | null;
  /** null: it runs. */
  ended: () => Exit | null;
  /** Starts a command of `temporal-rollout` against it. */
  command: (args: readonly string[], logFile: string) => Promise<Child>;
  /** As Ctrl-C. Resolves with the exit code, or throws what was left behind. */
  stop: () => Promise<Exit>;
  /** Whatever happened: no process is left, and no file if none is to be kept. */
  end: (options: { keeps: boolean }) => Promise<void>;
}

/** The example's pace, and a log of what was sampled by which weights. */
const simulatorOf = (directory: string) => ({
  tokens_per_second: 100,
  thinking_tokens: [40, 120],
  skill: 0.5,
  dev_mode: true,
  log_file: requestLogOf(directory),
  log_tokens: true,
});

export async function startKilledStack(): Promise<KilledStack> {
  const { path: directory, remove } = await makeTemporaryDirectory('chaos-kills');
  const source = path.join(directory, 'temporal.yaml');
  const simulator = path.join(directory, 'simulator.yaml');
  const logFile = path.join(directory, 'up.log');
  await copyFile(path.join(PROJECT_ROOT, 'temporal.yaml'), source);
  await writeFile(simulator, JSON.stringify(simulatorOf(directory)));
  const command = (args: readonly string[], log: string): Promise<Child> =>
    startLogged(args, { cwd: PROJECT_ROOT, logFile: log, ends: 'kernel' });
  const config = path.join(directory, '.rollouts', 'temporal.yaml');
  const given = ['--config', source, '--simulator', simulator];
  const endings = createEndings();
  endings.add(remove);
  try {
    const { up, ended } = await startUp(given, { cwd: PROJECT_ROOT, logFile });
    endings.add(up.stop);
    const { temporal, store } = parse(await readFile(config, 'utf8')) as Settings;
    return {
      ...{ directory, config, ...temporal, store_root: store.root, command },
      pidOf: (victim) => descendantsWith(up.pid, VICTIMS[victim])[0] ?? null,
      ended,
      stop: () => stopped(up, ended),
      end: ({ keeps }) => (keeps ? up.stop() : endings.end()),
    };
  } catch (error) {
    await endings.end();
    throw error;
  }
}

interface Settings {
  temporal: Pick<KilledStack, 'address' | 'namespace' | 'task_queue'>;
  store: { root: string };
}

async function stopped(up: Child, ended: () => Exit | null): Promise<Exit> {
  const parts = descendantsWith(up.pid, '');
  if (ended() === null) process.kill(up.pid, 'SIGINT');
  const exit = await within('the end of the stack', up.exited);
  // Their parent has waited for them.
  await sleep(100);
  const left = parts.filter(isRunning);
  if (left.length > 0) throw new Error(`the stack left processes behind: ${left.join(', ')}`);
  return exit;
}
