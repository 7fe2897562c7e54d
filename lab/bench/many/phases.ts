import type { HistorySizes } from '../histories.js';
import type { JournalBytes } from './journal-bytes.js';
import type { Loop, PerPart, Reading } from './readings.js';

/** Many rollouts in flight at once. */
export interface ManyOptions {
  rollouts: number;
  workers: number;
  turns: number;
  turn_ms: number;
  /** Sent one by one over the whole turn; null: an answer of some 25 comes whole at its end. */
  tokens: number | null;
  /** `worker.memory` of each. */
  memory: string;
  turn_slice: string;
  /** null: the default. */
  heartbeat_timeout: string | null;
  /** It fails if it has not ended by then. */
  limit_ms: number;
}

/** Part of a run, with what was read at its begin and its end. */
export interface Phase {
  name: 'starting' | 'waiting' | 'first turns' | 'playing' | 'ending';
  /** What it does, to divide by: rollouts started, turns played, rollouts ended; seconds of waiting rollouts. */
  count: number;
  before: Reading;
  after: Reading;
  loop: Loop;
}

export interface ManyRun extends ManyOptions {
  /** Nothing plays yet. */
  idle: Reading;
  /** What idle processes take in a second. */
  idle_cpu_ms: PerPart;
  phases: Phase[];
  histories: HistorySizes;
  closing_s: number;
  journals: JournalBytes;
  database_mb: number;
}

export const HEARTBEAT = 'RecordActivityTaskHeartbeat';

/** What one of its count costs. */
export interface PhaseCost {
  wall_s: number;
  /** CPU milliseconds for each of its count. */
  cpu_ms: PerPart;
  /** Requests to the server a second, without long polls. */
  requests_s: number;
  heartbeats_s: number;
}

/** They are open as long as a worker is idle. */
export const POLLS = /^Poll|GetWorkflowExecutionHistory/;

export function costOf({ before, after, count }: Phase): PhaseCost {
  const wall_s = (after.at_ms - before.at_ms) / 1000;
  const asked = Object.keys(after.requests)
    .filter((name) => !POLLS.test(name))
    .reduce((sum, name) => sum + between(name, { before, after }), 0);
  const each = (part: keyof PerPart): number => (after.cpu_ms[part] - before.cpu_ms[part]) / count;
  return {
    wall_s,
    cpu_ms: { server: each('server'), workers: each('workers'), simulator: each('simulator') },
    requests_s: asked / wall_s,
    heartbeats_s: between(HEARTBEAT, { before, after }) / wall_s,
  };
}

const between = (name: string, { before, after }: { before: Reading; after: Reading }): number =>
  (after.requests[name] ?? 0) - (before.requests[name] ?? 0);
