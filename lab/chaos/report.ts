import type { Interrupts } from './bounds.js';
import type { DayReport } from './day/report.js';
import { linesOfDay } from './day/report.js';
import type { KillsReport } from './kills/report.js';
import { linesOfKills } from './kills/report.js';
import type { Measurement } from './measurement.js';
import type { StoreKind } from './stores.js';

/** The cost of a run. */
export interface Cost {
  /** Sampled, and not in the results. */
  wasted_tokens: number;
  time_to_finish_s: number;
}

/** One fault's object in `faults` of the JSON. */
export interface FaultReport extends Measurement {
  name: string;
  hits: number;
  /** How long it delayed the schedule, in total. */
  held_s: number;
  interrupts: Interrupts;
  /** Requests that were open at the fault, or that it hit. */
  interrupted_streams: number;
  /** Sent by the engine before it noticed that the client had gone. */
  tokens_after_disconnect: number;
  tokens_limit: number;
  /** Attempts beyond each rollout's first. */
  extra_attempts: number;
  durable: Cost;
  /** The bare loops under the same schedule; null if they lack the part, or were not requested. */
  restart_all: Cost | null;
  restart_unfinished: Cost | null;
  /** Why this fault's bounds do not hold; empty when they do. */
  broken: string[];
}

export interface ChaosReport {
  schema_version: 1;
  seed: number;
  form: 'short' | 'long';
  store: StoreKind;
  duration_s: number;
  faults: FaultReport[];
  /** Of the parts of `npm start`, one after the other. */
  kills: KillsReport[];
  /** Of an operator, to a batch and to a stream. */
  day: DayReport[];
  /** Faults that were not played, with the reason. */
  not_played: { name: string; reason: string }[];
  ok: boolean;
}

/** Adds the violated bounds. */
export function judged(measured: Omit<FaultReport, 'broken'>): FaultReport {
  const none = ['rollouts_lost', 'rows_duplicated', 'turns_generated_twice'] as const;
  const broken: string[] = none
    .filter((name) => measured[name] !== 0)
    .map((name) => `${name}: expected 0, got ${measured[name]}`);
  const { tokens_limit, tokens_sampled_twice } = measured;
  if (tokens_sampled_twice > tokens_limit) {
    broken.push(
      `tokens_sampled_twice: expected at most ${tokens_limit}, got ${tokens_sampled_twice}`,
    );
  }
  if (measured.interrupted_streams === 0) {
    broken.push('interrupted_streams: expected some, got 0: the fault struck nothing');
  }
  return { ...measured, broken };
}

export function summarized(report: Omit<ChaosReport, 'schema_version' | 'ok'>): ChaosReport {
  const ok =
    report.not_played.length === 0 &&
    [...report.faults, ...report.kills, ...report.day].every(({ broken }) => broken.length === 0);
  return { schema_version: 1, ...report, ok };
}

const COLUMNS: readonly (readonly [string, (fault: FaultReport) => string])[] = [
  ['fault', ({ name }) => name],
  ['hits', ({ hits }) => String(hits)],
  ['streams', ({ interrupted_streams }) => String(interrupted_streams)],
  ['rollouts lost', ({ rollouts_lost }) => String(rollouts_lost)],
  ['rows duplicated', ({ rows_duplicated }) => String(rows_duplicated)],
  ['turns twice', ({ turns_generated_twice }) => String(turns_generated_twice)],
  ['tokens twice', ({ tokens_sampled_twice }) => String(tokens_sampled_twice)],
  ['limit', ({ tokens_limit }) => String(tokens_limit)],
  ['held s', ({ held_s }) => held_s.toFixed(1)],
  ['recovery s', ({ recovery_s }) => seconds(recovery_s)],
  ['wasted: durable', ({ durable }) => String(durable.wasted_tokens)],
  ['restart all', ({ restart_all }) => String(restart_all?.wasted_tokens ?? '-')],
  [
    'restart unfinished',
    ({ restart_unfinished }) => String(restart_unfinished?.wasted_tokens ?? '-'),
  ],
  ['finish s: durable', ({ durable }) => seconds(durable.time_to_finish_s)],
  ['restart all', ({ restart_all }) => seconds(restart_all?.time_to_finish_s ?? null)],
  [
    'restart unfinished',
    ({ restart_unfinished }) => seconds(restart_unfinished?.time_to_finish_s ?? null),
  ],
  ['', ({ broken }) => (broken.length === 0 ? 'ok' : 'BROKEN')],
];

const seconds = (value: number | null): string => (value === null ? '-' : value.toFixed(1));

/** A fault's line of the table, printed as soon as the fault was played. */
export const lineOf = (fault: FaultReport): string => cells(COLUMNS.map(([, text]) => text(fault)));

const cells = (values: readonly string[]): string => `| ${values.join(' | ')} |`;

const tableLines = (faults: readonly FaultReport[]): string[] => [
  cells(COLUMNS.map(([title]) => title)),
  cells(COLUMNS.map((_, i) => (i === 0 || i === COLUMNS.length - 1 ? '---' : '---:'))),
  ...faults.map(lineOf),
];

/** In Markdown; each violated bound follows the table. */
export function tableOf({
  faults,
  kills,
  day,
  not_played,
  seed,
  form,
  store,
  duration_s,
  ok,
}: ChaosReport): string {
  const lines = [
    `${form} form, store ${store}, seed ${seed}, ${duration_s.toFixed(0)} s: ${ok ? 'every bound holds' : 'BROKEN'}`,
    ...(faults.length === 0 ? [] : ['', ...tableLines(faults)]),
    ...(kills.length === 0 ? [] : ['', ...kills.flatMap(linesOfKills)]),
    ...(day.length === 0 ? [] : ['', ...day.flatMap(linesOfDay)]),
  ];
  const broken = [
    ...faults.flatMap(({ name, broken: reasons }) => reasons.map((reason) => `${name}: ${reason}`)),
    ...not_played.map(({ name, reason }) => `${name} was not played: ${reason}`),
  ];
  return [...lines, ...(broken.length === 0 ? [] : ['', ...broken])].join('\n');
}
