import { chown, mkdir } from 'node:fs/promises';
import { constants } from 'node:os';
import path from 'node:path';
import type { Folders } from '../folders.js';
import { isRoot } from '../folders.js';
import type { Printing } from '../output.js';
import { createOutput } from '../output.js';
import type { Python } from '../python.js';
import type { Excess } from '../snippets/outcomes.js';
import type { Watcher } from '../watch/watcher.js';
import type {
  Command,
  Confined,
  ConfinementOptions,
  Ended,
  Part,
  ProgramLimits,
  RunningCommand,
} from './confinement.js';
import type { Launcher, Ready } from './launcher.js';
import { launch } from './launcher.js';
import type { View } from './view.js';
import { COMMON, FOLDER, KEPT, ownOf, ROOTS, variablesWith, viewOf } from './view.js';

/** One life: its folder, its launcher, the watch over it, and the commands that run in it one after the other. */

interface LifeOptions extends Pick<ConfinementOptions, 'mounts' | 'submit_mounts' | 'limits'> {
  python: Python;
  folders: Folders;
  watcher: Watcher;
  signal: AbortSignal;
}

const PORT = 8088;
/** How deep our own processes are in its tree: the launcher, and two of each command. */
const LEVELS = 3;
/** Ours are of the program's user where the worker is not root. */
const OURS = LEVELS + 1;

export async function openLife(options: LifeOptions): Promise<Confined & { ready: Ready }> {
  const { mounts, submit_mounts, limits, python, folders, watcher, signal } = options;
  const { folder, uid } = await folders.claim(isRoot());
  const make = (names: readonly string[]): Promise<void> => makeFolders(names, { folder, uid });
  const made = await make([...COMMON, ...ownOf('program')])
    .then(() =>
      launch(
        {
          ...{ folder, own_user: uid, port: PORT, disk: limits.disk },
          processes: limits.processes + OURS,
        },
        { python, signal },
      ),
    )
    .catch(async (error: unknown) => {
      await folders.release(folder);
      throw error;
    });
  const commands = createCommands(made);
  const watch = watcher.watch(
    {
      ...{ root: made.pid, group: null, levels: LEVELS, folder, mounts: [] },
      roots: ROOTS,
      limits: { ...limits, cpu_ms: Infinity },
      disk_bound: limits.disk,
    },
    (excess) => {
      commands.excess(sentenceOf(excess, limits));
    },
  );
  let last = 0;
  const around = async (part: Part): Promise<View> => {
    const name = part === 'program' ? part : `${part}-${++last}`;
    if (part !== 'program') await make(ownOf(name));
    return viewOf(part, { name, mounts, submit_mounts, prefixes: python.prefixes });
  };
  let removing: Promise<void> | null = null;
  const remove = async (): Promise<void> => {
    made.server.close();
    made.leave();
    await made.ended;
    watch.end();
    await folders.release(folder);
  };
  return {
    folder: FOLDER,
    kept: KEPT,
    python: python.executable,
    variables: (part) =>
      variablesWith(
        part === 'submit' ? [...submit_mounts, ...mounts] : part === 'patch' ? [] : mounts,
      ),
    door: { base_url: `http://127.0.0.1:${PORT}/v1`, key: 'rollout', server: made.server },
    ready: made.ready,
    start: async (command) => {
      if (removing !== null) throw new Error('its sandbox is removed');
      const view = await around(command.part ?? 'program');
      // An excess of the command before has ended the watch.
      watch.run();
      return await commands.start(command, view);
    },
    remove: () => (removing ??= remove()),
  };
}

async function makeFolders(
  names: readonly string[],
  { folder, uid }: { folder: string; uid: number | null },
): Promise<void> {
  for (const name of names) {
    const one = path.join(folder, name);
    await mkdir(one, { mode: 0o755 });
    if (uid !== null) await chown(one, uid, uid);
  }
}

const gib = (bytes: number): string =>
  bytes >= 2 ** 30 ? `${round(bytes / 2 ** 30)} GiB` : `${round(bytes / 2 ** 20)} MiB`;
const round = (number: number): string => String(Math.round(number * 100) / 100);

function sentenceOf(excess: Excess, { memory, processes, disk }: ProgramLimits): string {
  if (excess === 'memory') return `it used more than ${gib(memory)} of memory (run.memory)`;
  if (excess === 'processes')
    return `it had more than ${processes} processes and threads (run.processes)`;
  if (excess === 'disk')
    return `its files took more than ${gib(disk)}, or could not be measured (run.disk)`;
  return `it was ended: ${excess}`;
}

/** The command that runs, or the last one. The launcher's outputs carry those of its commands, one after the other. */
interface Running {
  id: number;
  printed: Printing;
  come: { stdout: number; stderr: number };
  more: () => void;
  /** null: it has started, else why not. */
  told: Pending<string | null>;
  /** null: the sandbox has ended with it. */
  over: Pending<{ status: number; stdout: number; stderr: number } | null>;
  excess: string | null;
}

interface Pending<T> {
  promise: Promise<T>;
  resolve: (value: T) => void;
}

function pending<T>(): Pending<T> {
  let resolve: Pending<T>['resolve'] = () => undefined;
  const promise = new Promise<T>((settle) => (resolve = settle));
  return { promise, resolve };
}

const begun = (id: number, most_output?: number): Running => ({
  ...{ id, printed: createOutput(most_output), come: { stdout: 0, stderr: 0 } },
  ...{ more: () => undefined, told: pending(), over: pending(), excess: null },
});

function createCommands({ send, listen, ended, ...outputs }: Launcher) {
  let current = begun(0);
  for (const name of ['stdout', 'stderr'] as const)
    outputs[name].on('data', (chunk: Buffer) => {
      current.printed[name](chunk);
      current.come[name] += chunk.length;
      current.more();
    });
  listen((said) => {
    if ('started' in said) current.told.resolve(null);
    else if ('refused' in said) current.told.resolve(said.refused);
    else if ('ended' in said) current.over.resolve(said);
  });
  void ended.then(() => {
    current.told.resolve('its sandbox has ended');
    current.over.resolve(null);
  });
  return {
    start: async (
      { argv, env, input, most_output }: Command,
      view: View,
    ): Promise<RunningCommand> => {
      const mine = (current = begun(current.id + 1, most_output));
      const { id, come, printed } = mine;
      send({ start: { id, argv, env, input, ...view } });
      const why = await mine.told.promise;
      if (why !== null) throw new Error(why);
      return {
        ended: mine.over.promise.then(async (said): Promise<Ended> => {
          while (said !== null && (come.stdout < said.stdout || come.stderr < said.stderr))
            await new Promise<void>((resolve) => (mine.more = resolve));
          const how = exitOf(said?.status ?? 9);
          const { output, is_cut } = printed;
          return { ...how, excess: mine.excess, output: output(), is_cut: is_cut() };
        }),
        tail: printed.tail,
        end: () => {
          send({ end: id });
        },
      };
    },
    excess: (why: string): void => {
      current.excess ??= why;
      send({ end: current.id });
    },
  };
}

function exitOf(status: number): Pick<Ended, 'code' | 'signal'> {
  const number = status & 0x7f;
  if (number === 0) return { code: status >> 8, signal: null };
  const [name] = Object.entries(constants.signals).find(([, one]) => one === number) ?? [];
  return { code: null, signal: name ?? String(number) };
}
