import { formatNumber } from '../number-text.js';
import type { Column, Line, TextStyle } from '../text-line.js';
import { renderLine, tableOf } from '../text-line.js';
import type { BatchProgress } from '../../activities/contract.js';
import type { BatchResult } from '../../model/results/result.js';
import type { End } from '../../temporal/workflow-status.js';
import { endOf, isPaused } from '../../temporal/workflow-status.js';
import type { StoredBatch } from '../../trajectories/trajectory-store.js';

/** A batch or stream, as a list shows it. null: nobody knows, or it has none. */
export interface Listed {
  id: string;
  kind: 'batch' | 'stream' | null;
  state: State;
  /** When it was first started, else its newest start, in milliseconds since 1970. */
  started_ms: number | null;
  /** Rollouts; a stream has none of these numbers. */
  valid: number | null;
  failed: number | null;
  requested: number | null;
  /** Steps that a stream has delivered. */
  steps: number | null;
  /** The mean reward of its valid rollouts. */
  mean_reward: number | null;
}

/** `no_result`: neither a result, nor a workflow on the server, which may not have answered. */
export type State = 'running' | 'paused' | Exclude<End, 'continued'> | 'no_result';

/** The newest run of a batch or stream that Temporal has. */
export interface Run {
  id: string;
  kind: 'batch' | 'stream';
  /** The SDK's name of its status. */
  status: string;
  started_ms: number;
}

/** A run that was continued has a newer one, which a search may not find yet. */
function stateOf({ status }: Run): State {
  const end = endOf(status);
  if (end !== null && end !== 'continued') return end;
  return isPaused(status) ? 'paused' : 'running';
}

export const isOpen = ({ state }: Pick<Listed, 'state'>): boolean =>
  state === 'running' || state === 'paused';

/** What the store and the server have, each once, the newest start first; those without a time come last. */
export function merged(stored: readonly StoredBatch[], runs: readonly Run[]): Listed[] {
  const listed = new Map<string, Listed>();
  for (const { batch_id, created_ms } of stored)
    listed.set(batch_id, { ...UNKNOWN, id: batch_id, started_ms: created_ms });
  for (const run of runs) {
    const before = listed.get(run.id);
    listed.set(run.id, {
      ...UNKNOWN,
      id: run.id,
      kind: run.kind,
      state: stateOf(run),
      started_ms: before?.started_ms ?? run.started_ms,
    });
  }
  return [...listed.values()].sort(
    (a, b) => (b.started_ms ?? 0) - (a.started_ms ?? 0) || (a.id < b.id ? -1 : 1),
  );
}

const UNKNOWN = {
  kind: null,
  state: 'no_result',
  valid: null,
  failed: null,
  requested: null,
  steps: null,
  mean_reward: null,
} as const satisfies Partial<Listed>;

/** With the numbers of its result. An open batch has an older one, of which it keeps the rows. */
export const withResult = (
  listed: Listed,
  { counts, metrics }: Pick<BatchResult, 'counts' | 'metrics'>,
): Listed => ({
  ...listed,
  state: listed.state === 'no_result' ? 'ended' : listed.state,
  valid: counts.completed,
  failed: counts.requested - counts.completed,
  requested: counts.requested,
  mean_reward: metrics['mean_total_reward'] ?? null,
});

export const withProgress = (listed: Listed, progress: BatchProgress): Listed => ({
  ...listed,
  valid: progress.valid,
  failed: progress.failed,
  requested: progress.requested,
  mean_reward: progress.valid === 0 ? null : progress.reward_sum / progress.valid,
});

const NONE = '-';

const COLUMNS: readonly Column<Listed>[] = [
  { title: 'id', cell: ({ id }) => id },
  { title: 'kind', cell: ({ kind }) => kind ?? NONE },
  { title: 'state', cell: ({ state }) => state.replace('_', ' ') },
  { title: 'started (UTC)', cell: ({ started_ms }) => timeText(started_ms) },
  { title: 'valid', right: true, cell: validText },
  { title: 'failures', right: true, cell: ({ failed }) => numberText(failed) },
  { title: 'mean reward', right: true, cell: ({ mean_reward }) => mean_reward?.toFixed(3) ?? NONE },
];

/** A table of batches and streams; `others` are not shown. */
export function listTable(
  shown: readonly Listed[],
  { others, style }: { others: number; style: TextStyle },
): string[] {
  if (shown.length === 0) return ['no batches and no streams'];
  const [titles = '', ...rows] = tableOf(COLUMNS, shown).map((line) => line.trimEnd());
  const lines: Line[] = [
    [{ text: titles, ink: 'dim' }],
    ...rows.map((text, at): Line => {
      const listed = shown[at];
      return listed !== undefined && isOpen(listed) ? [{ text, ink: 'bold' }] : [text];
    }),
    ...(others === 0 ? [] : [[`${formatNumber(others)} older ones: --limit N shows more`]]),
  ];
  return lines.map((line) => renderLine(line, style));
}

function validText({ valid, requested, steps }: Listed): string {
  if (steps !== null) return `${formatNumber(steps)} ${steps === 1 ? 'step' : 'steps'}`;
  return valid === null ? NONE : `${formatNumber(valid)} of ${numberText(requested)}`;
}

const numberText = (value: number | null): string => (value === null ? NONE : formatNumber(value));

const timeText = (ms: number | null): string =>
  ms === null ? NONE : new Date(ms).toISOString().slice(0, 16).replace('T', ' ');
