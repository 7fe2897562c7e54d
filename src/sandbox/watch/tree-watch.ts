import type { MessagePort } from 'node:worker_threads';
import { parentPort } from 'node:worker_threads';
import type { Disk } from './disk-use.js';
import { NOTHING_USED, useOf } from './disk-use.js';
import type { Excess } from '../snippets/outcomes.js';
import type { Memory, Seen } from './process-tree.js';
import {
  memoryOf,
  processesBelow,
  shareOfMemory,
  signalGroup as signalTo,
} from './process-tree.js';
import type { ProcessorTime } from './processor-time.js';
import { countTime, NO_TIME } from './processor-time.js';
import type { Limits } from '../limits.js';

/**
 * Watches interpreters and their descendants in a separate thread, because the observed code determines how long a look
 * takes. Only this thread wakes them, so none runs on after `rest`.
 */

export interface Tree extends Disk {
  root: number;
  /** That many levels from the root down are our own: only their processor time counts. */
  levels: number;
  /** The process group that code is in; null: it has many, and none is ever stopped. */
  group: number | null;
  limits: Pick<Limits, 'cpu_ms' | 'memory' | 'processes' | 'disk'>;
}

export type Order =
  | { id: number; order: 'watch'; tree: Tree }
  /** Wakes it; its use from here on counts for one turn. */
  | { id: number; order: 'run' }
  | { id: number; order: 'rest' }
  | { id: number; order: 'forget' };

/** From the thread: the excess that was found, at any time; `rested` answers `rest`. */
export interface Finding {
  id: number;
  excess: Excess | null;
  rested: boolean;
}

const POLL_MS = 40;
const REST_POLL_MS = 1000;
/** All looks together take at most half of the thread's time. */
const SHARE = 4;
/** Time for it to end after it was stopped. */
const REST_CPU_MS = 200;

interface Watched {
  tree: Tree;
  /** Memory of no process alone, at the last look at files. */
  shared: number;
  time: ProcessorTime;
  looked_at: number;
  /** Time spent before this turn, or before this rest. */
  before_ms: number;
  running: boolean;
  timers: NodeJS.Timeout[];
}

function watchTrees(port: MessagePort): void {
  const all = new Map<number, Watched>();
  const say = (finding: Finding): void => {
    port.postMessage(finding);
  };

  const every = (id: number, { at_least_ms, look }: Look): void => {
    const one = all.get(id);
    if (one === undefined) return;
    const slot = one.timers.length;
    const next = (took_ms: number): void => {
      const pause_ms = Math.max(at_least_ms, SHARE * took_ms * countRunning(all));
      one.timers[slot] = setTimeout(again, pause_ms);
    };
    const again = (): void => {
      const began = performance.now();
      const excess = look(one);
      if (excess === null) next(performance.now() - began);
      else say({ id, excess, rested: false });
    };
    next(0);
  };

  const obey: { [Name in Order['order']]: (order: Extract<Order, { order: Name }>) => void } = {
    watch: ({ id, tree }) => {
      const { processes } = processesOf(tree);
      const time = countTime(NO_TIME, { processes, elapsed_ms: 0 });
      const now = { time, before_ms: time.spent_ms, looked_at: performance.now() };
      all.set(id, { tree, shared: 0, ...now, running: false, timers: [] });
    },
    run: ({ id }) => {
      const one = halt(all.get(id));
      if (one === undefined) return;
      one.running = true;
      signalGroup(one.tree.group, 'SIGCONT');
      every(id, { at_least_ms: POLL_MS, look: lookAtProcesses });
      every(id, { at_least_ms: POLL_MS, look: lookAtDisk });
    },
    rest: ({ id }) => {
      const one = halt(all.get(id));
      if (one === undefined) return;
      one.running = false;
      signalGroup(one.tree.group, 'SIGSTOP');
      const excess = lookAtProcesses(one) ?? lookAtDisk(one);
      one.before_ms = one.time.spent_ms;
      say({ id, excess, rested: true });
      if (excess === null) every(id, { at_least_ms: REST_POLL_MS, look: lookAtRest });
    },
    forget: ({ id }) => {
      halt(all.get(id));
      all.delete(id);
    },
  };
  port.on('message', (order: Order) => {
    obey[order.order](order as never);
  });
}

interface Look {
  at_least_ms: number;
  look: (one: Watched) => Excess | null;
}

function halt(one: Watched | undefined): Watched | undefined {
  for (const timer of one?.timers ?? []) clearTimeout(timer);
  if (one !== undefined) one.timers = [];
  return one;
}

const countRunning = (all: Map<number, Watched>): number =>
  [...all.values()].filter(({ running }) => running).length;

/** Memory, tasks and processor time: fast, and as often as possible. */
function lookAtProcesses(one: Watched): Excess | null {
  const { tree, before_ms } = one;
  const { limits } = tree;
  const { processes, tasks, own, shared } = still(one, () => measured(tree));
  const looked_at = performance.now();
  one.time = countTime(one.time, { processes, elapsed_ms: looked_at - one.looked_at });
  one.looked_at = looked_at;
  if (tasks > limits.processes) return 'processes';
  if (isBeyond(one, { own, shared }) && isBeyond(one, sharedOut(one))) return 'memory';
  return one.time.spent_ms - before_ms > limits.cpu_ms ? 'cpu' : null;
}

const isBeyond = ({ tree, shared: files }: Watched, { own, shared }: Memory): boolean =>
  own + Math.max(shared, files) > tree.limits.memory;

/** Memory with shared pages counted once; the fast look counts them for each fork. */
const sharedOut = (one: Watched): Memory => still(one, () => measured(one.tree, shareOfMemory));

function measured(tree: Tree, memory = memoryOf): Seen & Memory & { tasks: number } {
  const { processes, is_whole } = processesOf(tree);
  const code = processes.filter(({ level }) => level >= tree.levels);
  const each = code.map(memory);
  return {
    processes,
    tasks: code.reduce((total, process) => total + process.tasks, 0),
    own: each.reduce((total, one) => total + (one?.own ?? 0), 0),
    shared: each.reduce((total, one) => total + (one?.shared ?? 0), 0),
    is_whole: is_whole && !each.includes(null),
  };
}

/** Stopped code uses nothing; code that something else has woken is stopped again. */
function lookAtRest(one: Watched): Excess | null {
  const excess = lookAtProcesses(one);
  if (excess !== null) return excess;
  if (one.time.spent_ms - one.before_ms > REST_CPU_MS) return 'cpu';
  if (one.time.processes.size > one.tree.levels) signalGroup(one.tree.group, 'SIGSTOP');
  return null;
}

const processesOf = ({ root, levels, limits }: Tree): Seen =>
  // Each process above the code has one task: a guard, or bubblewrap.
  processesBelow(root, limits.processes + levels);

const STILL_TRIES = 20;
const STILL_MS = 5;

/** If something moved during a look (a rename, a process's child), the code is stopped and looked at again. */
function still<T extends { is_whole: boolean }>(
  { tree, running }: Watched,
  look: (is_last: boolean) => T,
): T {
  for (let tries = 0; ; tries++) {
    const seen = look(tries === STILL_TRIES);
    if (seen.is_whole || tries === STILL_TRIES || tree.group === null) {
      if (running && tries > 0) signalGroup(tree.group, 'SIGCONT');
      return seen;
    }
    signalGroup(tree.group, 'SIGSTOP');
    Atomics.wait(NOTHING, 0, 0, STILL_MS);
  }
}

/** What cannot be measured while the code is stopped counts as excess. */
function lookAtDisk(one: Watched): Excess | null {
  const { tree } = one;
  const { use } = still(one, (is_last) => {
    const { processes, is_whole } = processesOf(tree);
    const code = processes.filter(({ level }) => level >= tree.levels);
    const use =
      code.length === 0 ? NOTHING_USED : useOf(tree, { processes: code, may_end: is_last });
    return { use, is_whole: is_whole && use !== null };
  });
  one.shared = use?.shared ?? 0;
  return use === null || use.disk > tree.limits.disk ? 'disk' : null;
}

const signalGroup = (group: number | null, name: NodeJS.Signals): void => {
  if (group !== null) signalTo(group, name);
};

const NOTHING = new Int32Array(new SharedArrayBuffer(4));

if (parentPort !== null) watchTrees(parentPort);
