import { z } from 'zod';
import { writeJson } from '../../platform/json/kept.js';
import { arrowRows } from '../../model/results/arrow/rows.js';
import type { StopReason } from '../../model/workflow-safe/stop-reasons.js';
import type { Metrics } from '../../model/results/metrics.js';
import {
  computeLengths,
  computeMetrics,
  isValid,
  versionMetrics,
} from '../../model/results/metrics.js';
import { notesOf } from '../../model/results/notes.js';
import { groupTable } from '../../model/results/group-table.js';
import { Summary } from '../../model/results/summary.js';
import type { Place } from '../../model/workflow-safe/rollout-id.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { rowsOf, slicesOf } from '../../model/workflow-safe/slices.js';
import type { BatchOutputs, PartWriter } from '../../trajectories/trajectory-store.js';
import type { Attempt } from '../attempt.js';
import type { BatchResult, Counts } from '../contract.js';
import type { Body, Dependencies } from '../dependencies.js';
import { environmentMetrics } from './environment-metrics.js';
import type { BatchToFold } from './fold-rows.js';
import { batchToFold, foldRows } from './fold-rows.js';

/**
 * The closing pass. Journals become rows and summary lines, one at a time and in manifest order; summaries become
 * metrics. A slice closes its own part. The batch closes missing parts, joins all, and writes metrics.json last.
 */
export const closeBatch: Body<'closeBatch'> = async ([input], running) => {
  const { store } = running;
  const outputs = store.outputs(input.batch_id);
  const batch = await batchToFold(input, running);
  const samples = await store.sampleCount(input.batch_id);
  const { request } = batch;
  const parts = slicesOf(samples, request);
  const closing = { ...running, ...batch, outputs };
  for (const part of parts) await closePart(part, closing);
  const closed = await joinParts(parts, {
    ...closing,
    besides: (summaries) => ({ metrics: versionMetrics(summaries, request.policy_version) }),
  });
  return await putResult(closed, outputs);
};

interface Closed<T> {
  result: T;
  summaries: readonly Summary[];
}

/**
 * Its presence means that the batch or the step is closed, so it is written after all other files. Returns the one that
 * stands.
 */
export async function putResult<T extends BatchResult>(
  { result, summaries }: Closed<T>,
  outputs: BatchOutputs,
): Promise<T> {
  await outputs.putGroupTable(groupTable(summaries).map((line) => JSON.stringify(line)));
  return await outputs.putMetrics(result);
}

/** Joins closed parts. `besides`: what only a batch's result has, or only a step's. */
export async function joinParts<T extends { metrics: Metrics; notes?: string[] }>(
  parts: readonly RowRange[],
  {
    besides,
    environment,
    ...closing
  }: Closing & Pick<Dependencies, 'environment'> & { besides: (all: readonly Summary[]) => T },
): Promise<Closed<BatchResult & Omit<T, 'metrics' | 'notes'>>> {
  const { input, request, outputs, attempt } = closing;
  const lines = await outputs.join(parts);
  const summaries = lines.map((line) => Summary.parse(JSON.parse(line)));
  const { metrics, notes: own = [], ...more } = besides(summaries);
  const notes = [...own, ...notesOf(summaries, request)];
  const { overlong: rule, completion } = request;
  const result = {
    schema_version: 1 as const,
    batch_id: input.batch_id,
    counts: countsOf(summaries),
    files: outputs.files,
    metadata: request.metadata,
    metrics: {
      ...computeMetrics(summaries, request.semantics),
      ...(rule !== 'keep' && {
        'overlong/count': summaries.filter(({ overlong }) => overlong).length,
      }),
      ...(completion.policy !== 'complete' && computeLengths(summaries)),
      ...metrics,
      ...(await environmentMetrics({ summaries, outputs, attempt, environment })),
    },
    ...more,
    ...(notes.length > 0 && { notes }),
  };
  return { result, summaries };
}

export const closeSlice: Body<'closeSlice'> = async ([{ first, last, ...input }], running) => {
  const outputs = running.store.outputs(input.batch_id);
  const batch = await batchToFold(input, running);
  await closePart({ first, last }, { ...batch, outputs, attempt: running.attempt });
};

export interface Closing extends BatchToFold {
  outputs: BatchOutputs;
  attempt: Attempt;
}

const Checkpoint = z.object({
  first: z.number(),
  /** The last rollout that was written. */
  at: z.object({ row: z.number(), repeat: z.number() }),
  position: z.object({
    attempt: z.string(),
    written: z.number(),
    offsets: z.object({
      rollouts: z.number(),
      failures: z.number(),
      summaries: z.number(),
      sequences: z.number().exactOptional(),
    }),
  }),
});

/** Writes the part unless it is closed already. `rows`: its rows in ascending order; absent: all of the part. */
export async function closePart(
  part: RowRange,
  { rows = rowsOf(part), ...closing }: Closing & { rows?: Iterable<number> },
): Promise<void> {
  const { outputs, attempt } = closing;
  if (await outputs.isClosed(part)) return;
  const kept = attempt.keeps(Checkpoint);
  const found = kept.get();
  // A predecessor may have been in another part.
  const before = found?.first === part.first ? found : null;
  const writer = await outputs.openPart(part, before?.position ?? null);
  // By place, not by number: an outdated worker may have opened the journal of a replacement since. Without the
  // predecessor's files, from the beginning.
  const written = writer.position.written > 0 ? before?.at : undefined;
  const behind = behindPosition(writer);
  try {
    for await (const { place, row, summary } of foldRows(rows, { ...closing, written })) {
      await writer.write({
        row: writeJson(row),
        summary: JSON.stringify(summary),
        valid: isValid(summary),
        sequences: () => arrowRows(row),
      });
      const at = behind(place);
      if (at !== null) kept.set({ first: part.first, at, position: writer.position });
    }
    await writer.close();
  } finally {
    await writer.abandon();
  }
}

/** The last rollout that the writer's position covers, told each one that it wrote; null: it has not moved. */
function behindPosition(writer: PartWriter): (place: Place) => Place | null {
  const places: Place[] = [];
  let counted = writer.position.written;
  return (place) => {
    places.push(place);
    const covered = places.splice(0, writer.position.written - counted);
    counted += covered.length;
    return covered.at(-1) ?? null;
  };
}

const COUNTED_AS = {
  terminated: 'completed',
  truncated: 'completed',
  max_turns: 'completed',
  failed: 'failed',
  timeout: 'timed_out',
  stopped: 'stopped',
  cancelled: 'cancelled',
} as const satisfies Record<StopReason, keyof Counts>;

/** Counts of the files, never those that children reported. */
function countsOf(summaries: readonly Summary[]): Counts {
  const counts = {
    requested: summaries.length,
    completed: 0,
    failed: 0,
    timed_out: 0,
    stopped: 0,
    cancelled: 0,
  };
  for (const { stop_reason } of summaries) counts[COUNTED_AS[stop_reason as StopReason]] += 1;
  return counts;
}

/** Writes the rows of some groups, as the closing pass would, into a file that is put once. */
export const foldGroups: Body<'foldGroups'> = async ([{ from, rows, ...input }], running) => {
  const { attempt, store } = running;
  const batch = await batchToFold(input, running);
  const places = { from, to: from + rows.length };
  try {
    const lines = () => linesOf(rows, { ...batch, attempt });
    return await store.outputs(input.batch_id).putGroups(places, lines);
  } catch (error) {
    // The store reports a cancellation during a write as its own fault.
    attempt.signal.throwIfAborted();
    throw error;
  }
};

async function* linesOf(
  rows: readonly number[],
  batch: BatchToFold & { attempt: Attempt },
): AsyncGenerator<string> {
  for await (const folded of foldRows(rows, batch)) yield writeJson(folded.row);
}
