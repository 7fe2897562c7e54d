import type { MemoryPlan } from '../../workers/memory.js';
import type { FIGURES } from './figures.js';

/**
 * What was measured, one unit each: CPU milliseconds, bytes, numbers. `rollout_s`: for each second that a rollout is in
 * flight, by heartbeats and timers. Requests are without heartbeats and long polls, actions those that Temporal Cloud
 * bills, heartbeats apart, events with the rollout's part of its slice's history. A flush is of at most 64 tokens, or
 * those of 250 ms. `postgres`: the database's own cost of a turn of so many seconds and tokens.
 */
export type Figures = typeof FIGURES;

export interface Workload {
  rollouts: number;
  turns: number;
  turn_s: number;
  tokens: number;
  slice_s: number;
}

/** The command that measured a figure; null: it follows from what was asked. */
export type MeasuredBy = 'many' | 'stores-turns' | null;

export interface Row {
  part: 'load' | 'Temporal' | 'Temporal Cloud' | 'journals' | 'PostgreSQL' | 'workers';
  what: string;
  value: number;
  unit: string;
  by: MeasuredBy;
}

const MIB = 2 ** 20;
/** How much of a core the main thread of one worker process may take: above it, tokens wait for each other. */
const LOAD_OF_PROCESS = 0.7;
/** Tokens are journalled together: so many at most, or those of so much time. */
const FLUSH = { tokens: 64, s: 0.25 };
/** The events of an activity that continues a rollout after its slice. */
const EVENTS_OF_SLICE = 6;

type Load = ReturnType<typeof loadOf>;

const loadOf = ({ rollouts, turns, turn_s, tokens, slice_s }: Workload) => ({
  turns_s: rollouts / turn_s,
  tokens_s: (rollouts * tokens) / turn_s,
  rollouts_s: rollouts / (turns * turn_s),
  whole_s: turns * turn_s,
  /** Activities that continue a rollout after the first. */
  continued: Math.floor((turns * turn_s) / slice_s),
});

type Line = [what: string, value: number, unit?: string];

const rowsIn = ({ part, by }: Pick<Row, 'part' | 'by'>, lines: readonly Line[]): Row[] =>
  lines.map(([what, value, unit = '']) => ({ part, what, value, unit, by }));

interface Given {
  load: Load;
  figures: Figures;
  memoryFor: (rollouts: number) => number;
  /** How many of the measured size beat as often as these do. */
  beatAs: (rollouts: number) => number;
}

/** From measured figures and a number of rollouts in flight to what they need, if ended ones are always replaced. */
export function planOf(asked: Workload, measured: Omit<Given, 'load'>): Row[] {
  const given = { ...measured, load: loadOf(asked) };
  return [
    ...loadRows(asked, given),
    ...temporalRows(asked, given),
    ...journalRows(asked, given),
    ...workerRows(asked, given),
  ];
}

const loadRows = ({ rollouts }: Workload, { load }: Given): Row[] =>
  rowsIn({ part: 'load', by: null }, [
    ['rollouts in flight', rollouts],
    ['a rollout takes', load.whole_s, 's'],
    ['turns', load.turns_s, '/s'],
    ['tokens', load.tokens_s, '/s'],
    ['rollouts that end', load.rollouts_s, '/s'],
  ]);

interface Cost {
  cpu_ms_rollout: number;
  cpu_ms_rollout_s: number;
  cpu_ms_turn: number;
  cpu_ms_token?: number;
}

const coresOf = (cost: Cost, { rollouts, load }: { rollouts: number; load: Load }): number =>
  (load.rollouts_s * cost.cpu_ms_rollout +
    rollouts * cost.cpu_ms_rollout_s +
    load.turns_s * cost.cpu_ms_turn +
    load.tokens_s * (cost.cpu_ms_token ?? 0)) /
  1000;

function temporalRows({ rollouts }: Workload, { load, figures, beatAs }: Given): Row[] {
  const { temporal } = figures;
  const beating = beatAs(rollouts);
  const heartbeats_s = beating * temporal.heartbeats_rollout_s;
  const heartbeats = (heartbeats_s / rollouts) * load.whole_s;
  // They are what the server does for a rollout that waits.
  const cost = { ...temporal, cpu_ms_rollout_s: (beating / rollouts) * temporal.cpu_ms_rollout_s };
  const events = temporal.events_rollout + load.continued * EVENTS_OF_SLICE;
  const actions = temporal.actions_rollout + load.continued + heartbeats;
  return [
    ...rowsIn({ part: 'Temporal', by: 'many' }, [
      ['requests', load.rollouts_s * temporal.requests_rollout + heartbeats_s, '/s'],
      ['of them heartbeats', heartbeats_s, '/s'],
      ['events of histories', load.rollouts_s * events, '/s'],
      ['history of a rollout', temporal.history_bytes_rollout, 'bytes'],
      ['database', load.rollouts_s * temporal.database_bytes_rollout, 'bytes/s'],
      ['cores of a dev server', coresOf(cost, { rollouts, load })],
    ]),
    ...rowsIn({ part: 'Temporal Cloud', by: 'many' }, [
      ['actions of a rollout', actions],
      ['of them heartbeats', heartbeats],
      ['actions', load.rollouts_s * actions, '/s'],
      ['actions of all these rollouts', rollouts * actions],
    ]),
  ];
}

type Turn = Pick<Workload, 'turn_s' | 'tokens'>;

/** How often one turn's tokens are written. */
const flushesOf = ({ tokens, turn_s }: Turn): number =>
  Math.min(tokens, Math.max(tokens / FLUSH.tokens, turn_s / FLUSH.s));

const turnBytes = (turn: Turn, of: Figures['journal']): number =>
  of.bytes_turn + flushesOf(turn) * of.bytes_flush + turn.tokens * of.bytes_token;

function journalRows(asked: Workload, { load, figures: { journal, postgres } }: Given): Row[] {
  const flushes = flushesOf(asked);
  const turn = turnBytes(asked, journal);
  const whole = journal.bytes_rollout + asked.turns * turn;
  // The log grows with what is written, and the work with how often.
  const wal = (turn * postgres.wal_bytes_turn) / turnBytes(postgres, journal);
  const cpu_ms = (flushes * postgres.cpu_ms_turn) / flushesOf(postgres);
  return [
    ...rowsIn({ part: 'journals', by: 'many' }, [
      ['a rollout', whole, 'bytes'],
      ['all these rollouts', asked.rollouts * whole, 'bytes'],
      ['written', load.rollouts_s * whole, 'bytes/s'],
    ]),
    ...rowsIn({ part: 'journals', by: null }, [['lines of tokens', load.turns_s * flushes, '/s']]),
    ...rowsIn({ part: 'PostgreSQL', by: 'stores-turns' }, [
      ['write-ahead log', load.turns_s * wal, 'bytes/s'],
      ['cores', (load.turns_s * cpu_ms) / 1000],
    ]),
  ];
}

function workerRows(
  { rollouts }: Workload,
  { load, figures: { worker }, memoryFor }: Given,
): Row[] {
  const cores = coresOf(worker, { rollouts, load });
  const processes = Math.ceil(cores / LOAD_OF_PROCESS);
  const each = Math.ceil(rollouts / processes);
  const resident = worker.resident_bytes_idle + each * worker.resident_bytes_rollout;
  return [
    ...rowsIn({ part: 'workers', by: 'many' }, [
      ['cores', cores],
      [`processes, each at most ${LOAD_OF_PROCESS} of a core`, processes],
    ]),
    ...rowsIn({ part: 'workers', by: null }, [
      ['rollouts of a process', each],
      ['worker.max_generations, for each of them', each],
      ['worker.memory of a process (one queue)', memoryFor(each) / MIB, 'MiB'],
      ['max_in_flight, of all batches together', rollouts],
    ]),
    ...rowsIn({ part: 'workers', by: 'many' }, [
      ['resident in a process', resident, 'bytes'],
      ['open files of a process', Math.ceil(worker.files_idle + each * worker.files_rollout)],
    ]),
  ];
}

const STEP_BYTES = 64 * MIB;
/** Beyond what one machine has. */
const MOST_BYTES = 2 ** 20 * MIB;

/** The least memory of a process that lets so many rollouts play, and keeps their workflows. */
export function leastMemory(
  rollouts: number,
  planFor: (memory_bytes: number) => Pick<MemoryPlan, 'generations' | 'cached_workflows'>,
): number {
  const fits = (bytes: number): boolean => {
    const { generations, cached_workflows } = planFor(bytes);
    return generations >= rollouts && cached_workflows >= rollouts;
  };
  let bytes = STEP_BYTES;
  while (bytes < MOST_BYTES && !fits(bytes)) bytes += STEP_BYTES;
  return bytes;
}
