import { z } from 'zod';
import type { BatchRequest } from '../../model/batch-request.js';
import type { StopReason } from '../../model/workflow-safe/stop-reasons.js';
import { computeLengths, computeMetrics, isValid } from '../../model/metrics.js';
import type { ClosingReason, Outcome } from '../../model/outcome.js';
import { isRow, outcomeOf, surplusOf } from '../../model/outcome.js';
import { Summary, toRow, toSummary } from '../../model/row.js';
import type { Sample } from '../../model/sample.js';
import type { Trajectory } from '../../model/trajectory.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { slicesOf } from '../../model/workflow-safe/slices.js';
import type { BatchOutputs, TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Attempt } from '../attempt.js';
import type { BatchResult, CloseBatch, CloseSlice, Counts } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { environmentMetrics } from './environment-metrics.js';
import { requestOf } from '../request-of.js';

/**
 * The closing pass: journals, one at a time and in manifest order, become rows and summary lines; summaries become
 * metrics. A slice closes its own part; the batch closes the parts that are missing, joins them, and writes
 * metrics.json last.
 */
export async function closeWhole(
  input: CloseBatch,
  {
    attempt,
    store,
    environment,
  }: Pick<Dependencies, 'store' | 'environment'> & { attempt: Attempt },
): Promise<BatchResult> {
  const request = await requestOf(input.batch_id, store);
  const outputs = store.outputs(input.batch_id);
  const samples = await store.sampleCount(input.batch_id);
  const parts = slicesOf({ samples, num_repeats: request.num_repeats });
  const replacements = await findReplacements({ ...input, request, store });
  const closing = { input, request, replacements, outputs, attempt, store };
  for (const part of parts) {
    if (!(await outputs.isClosed(part))) await closePart(part, closing);
  }
  const summaries = (await outputs.join(parts)).map((line) => Summary.parse(JSON.parse(line)));
  const result: BatchResult = {
    schema_version: 1,
    batch_id: input.batch_id,
    counts: countsOf(summaries),
    metrics: {
      ...computeMetrics(summaries, request.semantics),
      ...(request.overlong !== 'keep' && {
        'overlong/count': summaries.filter(({ overlong }) => overlong).length,
      }),
      ...(request.completion.policy !== 'complete' && computeLengths(summaries)),
      ...(await environmentMetrics({ summaries, outputs, attempt, environment })),
    },
    files: outputs.files,
    metadata: request.metadata,
  };
  await outputs.putMetrics(result);
  return result;
}

/** Only the rows of a part. */
export async function closeRows(
  { first, last, ...input }: CloseSlice,
  { attempt, store }: Pick<Dependencies, 'store'> & { attempt: Attempt },
): Promise<void> {
  const part = { first, last };
  const request = await requestOf(input.batch_id, store);
  const outputs = store.outputs(input.batch_id);
  if (await outputs.isClosed(part)) return;
  const replacements = await findReplacements({ ...input, request, store });
  await closePart(part, { input, request, replacements, outputs, attempt, store });
}

interface Closing {
  input: CloseBatch;
  request: BatchRequest;
  replacements: Replacements;
  outputs: BatchOutputs;
  attempt: Attempt;
  store: TrajectoryStore;
}

/** Their repeats by row, in order. */
type Replacements = ReadonlyMap<number, readonly number[]>;

interface Place {
  row: number;
  repeat: number;
}

/** Those that were started, in whichever run of the batch: they have a journal. */
async function findReplacements({
  batch_id,
  request: { completion, num_repeats },
  store,
}: CloseBatch & Pick<Closing, 'request' | 'store'>): Promise<Replacements> {
  const found = new Map<number, number[]>();
  if (completion.policy !== 'refill') return found;
  const journals = await store.listJournals(batch_id);
  for (const { row, repeat } of journals.toSorted((a, b) => a.repeat - b.repeat)) {
    if (repeat < num_repeats) continue;
    const repeats = found.get(row);
    if (repeats === undefined) found.set(row, [repeat]);
    else repeats.push(repeat);
  }
  return found;
}

/** The rollouts of a part in input order: each row's repeats, its replacements behind them. */
function* rolloutsOf(
  { first, last }: RowRange,
  { request, replacements }: Pick<Closing, 'request' | 'replacements'>,
): Generator<Place> {
  for (let row = first; row <= last; row++) {
    for (let repeat = 0; repeat < request.num_repeats; repeat++) yield { row, repeat };
    for (const repeat of replacements.get(row) ?? []) yield { row, repeat };
  }
}

const isBehind = (place: Place, other: Place): boolean =>
  place.row > other.row || (place.row === other.row && place.repeat > other.repeat);

const Checkpoint = z.object({
  first: z.number(),
  /** The rollout that was written last. */
  at: z.object({ row: z.number(), repeat: z.number() }),
  position: z.object({
    attempt: z.string(),
    written: z.number(),
    offsets: z.object({ rollouts: z.number(), failures: z.number(), summaries: z.number() }),
  }),
});

async function closePart(part: RowRange, closing: Closing): Promise<void> {
  const { input, request, outputs, attempt, store } = closing;
  const otherwise: ClosingReason = { stop_reason: input.stopped ? 'stopped' : 'cancelled' };
  const before = resumeOf(attempt, part);
  const writer = await outputs.openPart(part, before?.position ?? null);
  // By place, not by number: a zombie may have opened the journal of a replacement since. Without the predecessor's
  // files, from the beginning.
  const written = writer.position.written > 0 ? before?.at : undefined;
  let sample: Sample | null = null;
  try {
    const { semantics } = request;
    const members = membersOf(request.completion);
    for (const place of rolloutsOf(part, closing)) {
      const isWritten = written !== undefined && !isBehind(place, written);
      if (isWritten && !members.isNeeded(place, written)) continue;
      attempt.signal.throwIfAborted();
      const ref = { batch_id: input.batch_id, ...place };
      const trajectory = await store.readTrajectory(ref);
      const outcome = members.judged(place, {
        trajectory,
        outcome: outcomeOf(trajectory, otherwise),
      });
      if (isWritten) continue;
      if (sample === null || ref.repeat === 0) sample = await store.readSample(ref);
      const row = toRow({ sample, ref, semantics, trajectory, outcome });
      const summary = toSummary(row, trajectory);
      await writer.write({
        row: JSON.stringify(row),
        summary: JSON.stringify(summary),
        valid: isValid(summary),
      });
      attempt.checkpoint = { first: part.first, at: place, position: writer.position };
    }
    await writer.close();
  } finally {
    await writer.abandon();
  }
}

interface Judged {
  trajectory: Trajectory;
  outcome: Outcome;
}

/** Under `min_k` the first valid members of a group, by repeat, are its rows: what comes behind them is surplus. */
function membersOf(completion: BatchRequest['completion']): {
  /** Must a rollout whose row is written be counted all the same? */
  isNeeded: (place: Place, written: Place) => boolean;
  judged: (place: Place, judged: Judged) => Outcome;
} {
  const k = completion.policy === 'min_k' ? completion.k : Infinity;
  let group = -1;
  let rows = 0;
  return {
    isNeeded: ({ row }, written) => k !== Infinity && row === written.row,
    judged: ({ row }, { trajectory, outcome }) => {
      if (row !== group) rows = 0;
      group = row;
      if (!isRow(outcome)) return outcome;
      rows += 1;
      return rows > k ? surplusOf(trajectory, k) : outcome;
    },
  };
}

/** Where a predecessor stood, if it was in this part. */
function resumeOf({ checkpoint }: Attempt, { first }: RowRange): z.infer<typeof Checkpoint> | null {
  const parsed = Checkpoint.safeParse(checkpoint);
  return parsed.success && parsed.data.first === first ? parsed.data : null;
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

/** Of the files, never what children reported. */
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
