import type { Figures } from '../../../src/cli/plan/plan.js';
import type { PerPart, Reading } from './readings.js';
import type { JournalBytes } from './journal-bytes.js';
import type { ManyRun, Phase } from './phases.js';
import { HEARTBEAT, POLLS, costOf } from './phases.js';

/** The two runs that the figures of `temporal-rollout plan` come from, and what PostgreSQL adds. */
export interface Measured {
  /** Answers that come whole. */
  whole: ManyRun;
  /** Answers token by token. */
  streamed: ManyRun;
  postgres: Figures['postgres'];
  where: string;
}

export function figuresOf({ whole, streamed, postgres, where }: Measured): Figures {
  const temporal = partCosts(whole, 'server');
  const worker = partCosts(whole, 'workers');
  const ofTokens = partCosts(streamed, 'workers');
  const tokens = tokensOf(streamed.journals) - tokensOf(whole.journals);
  const { idle, rollouts, phases, histories } = whole;
  const ended = phases.at(-1)?.after ?? idle;
  const counts = countsOf(whole, { idle, ended });
  const slices = histories.slice.count === 0 ? 0 : histories.slice.count / rollouts;
  return rounded({
    where,
    temporal: {
      ...temporal,
      ...counts,
      events_rollout: histories.rollout.events + slices * histories.slice.events,
      history_bytes_rollout: (histories.rollout.kb + slices * histories.slice.kb) * 1024,
      database_bytes_rollout: (whole.database_mb * 1e6) / rollouts,
    },
    worker: {
      ...worker,
      cpu_ms_token: Math.max(0, ofTokens.cpu_ms_turn - worker.cpu_ms_turn) / tokens,
      ...heldBy(whole),
    },
    journal: linesOf(whole.journals, streamed.journals),
    postgres,
  });
}

const phaseOf = ({ phases }: ManyRun, name: Phase['name']): Phase => {
  const found = phases.find((phase) => phase.name === name);
  if (found === undefined) throw new Error(`the run has no phase ${name}`);
  return found;
};

const secondsOf = ({ before, after }: Phase): number => (after.at_ms - before.at_ms) / 1000;

/** Of starting and ending, of a second in flight, of a turn: each without what the others cost meanwhile. */
function partCosts(run: ManyRun, part: keyof PerPart) {
  const { rollouts } = run;
  const waiting = phaseOf(run, 'waiting');
  const idle = run.idle_cpu_ms[part];
  const beside = (idle * secondsOf(waiting)) / waiting.count;
  const second = Math.max(0, costOf(waiting).cpu_ms[part] - beside);
  const spent = (name: Phase['name']): number => {
    const phase = phaseOf(run, name);
    // While they start and while they end, half of them are in flight.
    const inFlight = name === 'playing' ? rollouts : rollouts / 2;
    const cpu_ms = phase.after.cpu_ms[part] - phase.before.cpu_ms[part];
    return Math.max(0, cpu_ms - secondsOf(phase) * (idle + inFlight * second));
  };
  const turn = spent('playing') / phaseOf(run, 'playing').count;
  return {
    cpu_ms_rollout: Math.max(0, spent('starting') + spent('ending') - rollouts * turn) / rollouts,
    cpu_ms_rollout_s: second,
    cpu_ms_turn: turn,
  };
}

function countsOf(
  { rollouts, ...run }: ManyRun,
  { idle, ended }: { idle: Reading; ended: Reading },
) {
  const all = (what: 'requests' | 'actions', isLeftOut: RegExp): number =>
    Object.keys(ended[what])
      .filter((name) => !isLeftOut.test(name))
      .reduce((sum, name) => sum + (ended[what][name] ?? 0) - (idle[what][name] ?? 0), 0);
  const waiting = phaseOf({ rollouts, ...run }, 'waiting');
  // The first turns are held for so long that their wait is signalled, which turns of seconds are not.
  const HELD = /Signal/;
  const others = new RegExp(`${POLLS.source}|${HEARTBEAT}|${HELD.source}`);
  return {
    requests_rollout: all('requests', others) / rollouts,
    heartbeats_rollout_s: costOf(waiting).heartbeats_s / rollouts,
    actions_rollout: all('actions', new RegExp(`${HEARTBEAT}|${HELD.source}`)) / rollouts,
  };
}

function heldBy({ idle, rollouts, workers, ...run }: ManyRun) {
  const { after } = phaseOf({ idle, rollouts, workers, ...run }, 'playing');
  const grown = (what: 'resident_mb' | 'open_files'): number =>
    (after[what].workers - idle[what].workers) / rollouts;
  return {
    resident_bytes_idle: (idle.resident_mb.workers / workers) * 2 ** 20,
    resident_bytes_rollout: grown('resident_mb') * 2 ** 20,
    files_idle: idle.open_files.workers / workers,
    files_rollout: grown('open_files'),
  };
}

const tokensOf = ({ tokens, turns }: JournalBytes): number => tokens / turns;

/** A line of tokens has a part of its own and one for each token: two runs with lines of different lengths tell them apart. */
function linesOf(whole: JournalBytes, streamed: JournalBytes): Figures['journal'] {
  const line = ({ of_flushes, flushes, tokens }: JournalBytes) => ({
    bytes: of_flushes / flushes,
    tokens: tokens / flushes,
  });
  const [a, b] = [line(whole), line(streamed)];
  const token = (b.bytes - a.bytes) / (b.tokens - a.tokens);
  return {
    bytes_rollout: whole.of_rollouts / whole.rollouts,
    bytes_turn: whole.of_turns / whole.turns,
    bytes_flush: a.bytes - a.tokens * token,
    bytes_token: token,
  };
}

/** Three digits: a run differs from the next in the second. */
function rounded<T>(value: T): T {
  if (typeof value === 'number') return Number(value.toPrecision(3)) as T;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, rounded(one)])) as T;
}

/** What lab/bench/scenario.ts plays in turns of 3 s. */
const TURN_OF_STORES = { turn_s: 3, tokens: 85 };

/** The row of PostgreSQL at turns of 3 s in the page's table. */
export function postgresIn(page: string): Figures['postgres'] {
  const row = page
    .split('\n')
    .find((line) => /turns of 3 s/.test(line) && /\| postgres/.test(line));
  const cells = row?.split('|').map((cell) => cell.trim()) ?? [];
  const [cpu_ms_turn, wal_bytes_turn] = [cells[4], cells[6]].map((cell) =>
    Number(cell?.replaceAll(',', '')),
  );
  if (
    cpu_ms_turn === undefined ||
    wal_bytes_turn === undefined ||
    Number.isNaN(cpu_ms_turn + wal_bytes_turn)
  )
    throw new Error('lab/bench/TABLES.md: expected a row of turns of 3 s in postgres, got none');
  return { cpu_ms_turn, wal_bytes_turn, ...TURN_OF_STORES };
}

export const figuresFile = (figures: Figures): string =>
  `/** Written by \`node --import tsx lab/bench/many/main.ts --figures\`. */
export const FIGURES = ${JSON.stringify(figures, null, 2)};
`;
