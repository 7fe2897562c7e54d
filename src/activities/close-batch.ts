import { z } from 'zod';
import type { BatchRequest } from '../model/batch-request.js';
import type { StopReason } from '../model/journal.js';
import { computeLengths, computeMetrics, isValid } from '../model/metrics.js';
import type { ClosingReason } from '../model/row.js';
import { Summary, toRow, toSummary } from '../model/row.js';
import type { Sample } from '../model/sample.js';
import type { Part } from '../model/slices.js';
import { slicesOf } from '../model/slices.js';
import type {
  BatchOutputs,
  PartPosition,
  TrajectoryStore,
} from '../trajectories/trajectory-store.js';
import type { Attempt } from './attempt.js';
import type { Activities, BatchResult, CloseBatch, Counts } from './contract.js';
import type { Dependencies } from './dependencies.js';
import { requestOf } from './request-of.js';

/**
 * The closing pass: journals, one at a time and in manifest order, become rows and summary lines; summaries become
 * metrics. A slice closes its own part; the batch closes the parts that are missing, joins them, and writes
 * metrics.json last.
 */
export function createCloseBatch({ attempt, store }: Dependencies): Activities['closeBatch'] {
  return (input) =>
    attempt(async (hold) => {
      const request = await requestOf(input.batch_id, store);
      const outputs = store.outputs(input.batch_id);
      const samples = await store.sampleCount(input.batch_id);
      const parts = slicesOf({ samples, num_repeats: request.num_repeats });
      const closing = { input, request, outputs, attempt: hold };
      for (const part of parts) {
        if (!(await outputs.isClosed(part))) await closePart(part, { ...closing, store });
      }
      const summaries = (await outputs.join(parts)).map((line) => Summary.parse(JSON.parse(line)));
      const result: BatchResult = {
        schema_version: 1,
        batch_id: input.batch_id,
        counts: countsOf(summaries),
        metrics: {
          ...computeMetrics(summaries, request.semantics),
          ...(request.completion.policy !== 'complete' && computeLengths(summaries)),
        },
        files: outputs.files,
        metadata: request.metadata,
      };
      await outputs.putMetrics(result);
      return result;
    });
}

export function createCloseSlice({ attempt, store }: Dependencies): Activities['closeSlice'] {
  return (input) =>
    attempt(async (hold) => {
      const request = await requestOf(input.batch_id, store);
      const outputs = store.outputs(input.batch_id);
      const part = { first: input.first, last: input.last };
      if (await outputs.isClosed(part)) return;
      await closePart(part, { input, request, outputs, attempt: hold, store });
    });
}

interface Closing {
  input: CloseBatch;
  request: BatchRequest;
  outputs: BatchOutputs;
  attempt: Attempt;
  store: TrajectoryStore;
}

const Checkpoint = z.object({
  first: z.number(),
  position: z.object({
    attempt: z.string(),
    written: z.number(),
    offsets: z.object({ rollouts: z.number(), failures: z.number(), summaries: z.number() }),
  }),
});

async function closePart(
  part: Part,
  { input, request, outputs, attempt, store }: Closing,
): Promise<void> {
  const otherwise: ClosingReason = { stop_reason: input.stopped ? 'stopped' : 'cancelled' };
  const { num_repeats } = request;
  const rollouts = (part.last - part.first + 1) * num_repeats;
  const writer = await outputs.openPart(part, resumeOf(attempt, part));
  let sample: Sample | null = null;
  try {
    for (let i = writer.position.written; i < rollouts; i++) {
      attempt.signal.throwIfAborted();
      const ref = {
        batch_id: input.batch_id,
        row: part.first + Math.floor(i / num_repeats),
        repeat: i % num_repeats,
      };
      if (sample === null || ref.repeat === 0) sample = await store.readSample(ref);
      const trajectory = await store.readTrajectory(ref);
      const row = toRow({ sample, ref, semantics: request.semantics, trajectory, otherwise });
      const summary = toSummary(row, trajectory);
      await writer.write({
        row: JSON.stringify(row),
        summary: JSON.stringify(summary),
        valid: isValid(summary),
      });
      attempt.checkpoint = { first: part.first, position: writer.position };
    }
    await writer.close();
  } finally {
    await writer.abandon();
  }
}

/** A predecessor's position, if it was in this part. */
function resumeOf({ checkpoint }: Attempt, { first }: Part): PartPosition | null {
  const parsed = Checkpoint.safeParse(checkpoint);
  return parsed.success && parsed.data.first === first ? parsed.data.position : null;
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
