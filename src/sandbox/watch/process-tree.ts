import { readdirSync, readFileSync } from 'node:fs';
import { codeOf } from '../../platform/errors.js';

/**
 * A process and all its descendants, from /proc. Read in one go, because a process could hide between two reads. Linux
 * only; elsewhere there is none.
 */

export interface Process {
  pid: number;
  /** With the pid it identifies the process, since pids are reused. */
  start: string;
  level: number;
  /** Its threads, including ended ones. */
  own_ms: number;
  /** Ended descendants that it, or one of them, waited for. */
  waited_ms: number;
  tasks: number;
  is_running: boolean;
  has_ended: boolean;
}

export interface Seen {
  processes: Process[];
  /** false: a process was gone before it was read, so its replacement may be missing. */
  is_whole: boolean;
}

/** With more than `max_tasks` processes and threads, only that many. */
export function processesBelow(root: number, max_tasks = Infinity): Seen {
  const processes: Process[] = [];
  let is_whole = true;
  let tasks = 0;
  let generation = [root];
  for (let level = 0; generation.length > 0; level++) {
    const below: number[] = [];
    for (const pid of generation) {
      const one = processOf(pid, level);
      if (one === null) {
        // Without the root there is no tree.
        is_whole &&= level === 0;
        continue;
      }
      processes.push(one);
      tasks += one.tasks;
      if (tasks > max_tasks) return { processes, is_whole };
      below.push(...(one.tasks > 1 ? childrenOf(pid) : childrenOfTask(pid, pid)));
    }
    generation = below;
  }
  return { processes, is_whole };
}

export function childrenOf(pid: number): number[] {
  return tasksOf(pid).flatMap((task) => childrenOfTask(pid, task));
}

export const tasksOf = (pid: number): number[] => entriesOf(`/proc/${pid}/task`).map(Number);

const childrenOfTask = (pid: number, task: number): number[] =>
  contentsOf(`/proc/${pid}/task/${task}/children`).split(' ').filter(Boolean).map(Number);

const TICK_MS = 10;

function processOf(pid: number, level: number): Process | null {
  const stat = contentsOf(`/proc/${pid}/stat`);
  // The name, in parentheses, may contain anything; field 3 of the whole is the first after it.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const ms = (field: number): number => Number(fields[field - 3]) * TICK_MS;
  const [state, start] = [fields[0], fields[22 - 3]];
  if (state === undefined || start === undefined) return null;
  return {
    ...{ pid, level, start },
    own_ms: Math.max(ms(14) + ms(15), ofMainThread_ms(pid)),
    waited_ms: ms(16) + ms(17),
    tasks: Number(fields[20 - 3]),
    // Or would be running: a look may stop it.
    is_running: state === 'R' || state === 'T',
    has_ended: state === 'Z' || state === 'X',
  };
}

const PF_EXITING = 4;

/** It has gone, or is about to, and shows nothing of its own any more to users that are not root. */
export function isEnding(pid: number): boolean {
  const stat = contentsOf(`/proc/${pid}/stat`);
  const flags = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[9 - 3]);
  return stat === '' || (flags & PF_EXITING) !== 0;
}

/** More exact than ticks, if the kernel supports it: some processes live shorter than a tick. */
const ofMainThread_ms = (pid: number): number =>
  Number(contentsOf(`/proc/${pid}/schedstat`).split(' ', 1)[0]) / 1e6;

/** In bytes. */
export interface Memory {
  /** Resident and swapped memory that belongs to no file, and page tables. */
  own: number;
  /** Files of memory, and memory that is shared on purpose. */
  shared: number;
}

/** null: gone. Memory that several processes have counts for each. */
export function memoryOf(one: Process): Memory | null {
  const status = tellingOf(one, { file: 'status', by: 'RssAnon' });
  if (status === '') return null;
  const number = numbersIn(status);
  return {
    own: number('RssAnon') + number('VmSwap') + number('VmPTE'),
    shared: number('RssShmem'),
  };
}

/** With what forks share divided among them, where the kernel says it; that takes some 10 ms a gibibyte. */
export function shareOfMemory(one: Process): Memory | null {
  const whole = memoryOf(one);
  const rollup = tellingOf(one, { file: 'smaps_rollup', by: 'Pss_Anon' });
  if (whole === null || rollup === '') return whole;
  const number = numbersIn(rollup);
  const tables = numbersIn(tellingOf(one, { file: 'status', by: 'VmPTE' }))('VmPTE');
  return { own: number('Pss_Anon') + number('SwapPss') + tables, shared: number('Pss_Shmem') };
}

/** A main thread that has ended shows no memory; the others do. */
function tellingOf(
  { pid, tasks, has_ended }: Process,
  { file, by }: { file: string; by: string },
): string {
  let text = '';
  for (const task of has_ended && tasks > 1 ? tasksOf(pid) : [pid]) {
    text = contentsOf(`/proc/${pid}/task/${task}/${file}`);
    if (text.includes(by)) break;
  }
  return text;
}

const numbersIn =
  (text: string) =>
  (name: string): number =>
    1024 * Number(new RegExp(`^${name}:\\s+(\\d+)`, 'm').exec(text)?.[1] ?? 0);

function contentsOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    refuseOurs(error);
    return '';
  }
}

function entriesOf(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch (error) {
    refuseOurs(error);
    return [];
  }
}

/** Rethrows errors about this process's limit of open files, which say nothing about the observed process. */
export function refuseOurs(error: unknown): void {
  const code = codeOf(error);
  if (code === 'EMFILE' || code === 'ENFILE' || code === 'ENOMEM') throw error;
}

export function signalTo(target: number, name: NodeJS.Signals): void {
  try {
    process.kill(target, name);
  } catch {
    return;
  }
}

export function signalGroup(group: number, name: NodeJS.Signals): void {
  // -0 would be the worker's own group, -1 every process.
  if (group > 1) signalTo(-group, name);
}
