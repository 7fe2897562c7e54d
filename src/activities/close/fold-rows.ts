import type { BatchRequest, RolloutRef } from '../../model/batch-request.js';
import type { DeliveredIn, Folded } from '../../model/stream/step-row.js';
import { inStep } from '../../model/stream/step-row.js';
import type { StreamPlace } from '../../model/workflow-safe/stream/sample-order.js';
import type { ClosingReason, Outcome } from '../../model/journal/outcome.js';
import { hasEnded, isRow, outcomeOf, surplusOf } from '../../model/journal/outcome.js';
import { toRow } from '../../model/results/row.js';
import { toSummary } from '../../model/results/summary.js';
import type { Sample } from '../../model/sample.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import { totalsOf } from '../../model/journal/trajectory.js';
import { type Place, rolloutId } from '../../model/workflow-safe/rollout-id.js';
import { describeError } from '../../platform/errors.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Attempt } from '../attempt.js';
import type { CloseBatch } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { journalLost } from '../playing.js';
import { unshelved } from '../../trajectories/shelf.js';
import { requestOf, sampleOf } from '../request-of.js';

export interface BatchToFold {
  input: CloseBatch;
  request: BatchRequest;
  replacements: Replacements;
  store: TrajectoryStore;
  endOf: Dependencies['endOf'];
  /** For a stream: the step that delivers them. */
  delivered?: DeliveredIn;
}

export async function batchToFold(
  input: CloseBatch,
  { store, endOf }: Pick<Dependencies, 'store' | 'endOf'>,
): Promise<BatchToFold> {
  const request = await requestOf(input.batch_id, store);
  const replacements = await findReplacements({ ...input, request, store });
  return { input, request, replacements, store, endOf };
}

export interface FoldedRow extends Folded {
  place: Place;
}

/** `written`: the last rollout whose row is written already. It and those before it are left out. */
export async function* foldRows(
  rows: Iterable<number>,
  {
    written,
    attempt,
    ...batch
  }: BatchToFold & { written?: Place | undefined; attempt: Pick<Attempt, 'signal' | 'warn'> },
): AsyncGenerator<FoldedRow> {
  const { input, request, store, delivered } = batch;
  const { semantics } = request;
  const otherwise: ClosingReason = { stop_reason: input.stopped ? 'stopped' : 'cancelled' };
  const members = membersOf(request.completion);
  const lost = lostEnds({ ...batch, warn: attempt.warn });
  let played: { sample: Sample; place: StreamPlace | null } | null = null;
  for (const place of rolloutsOf(rows, batch)) {
    const isWritten = written !== undefined && !isBehind(place, written);
    if (isWritten && !members.isNeeded(place, written)) continue;
    attempt.signal.throwIfAborted();
    const ref = { batch_id: input.batch_id, ...place };
    const trajectory = await store.readTrajectory(ref);
    const outcome = members.judged(place, {
      trajectory,
      outcome: (await lost(ref, trajectory)) ?? outcomeOf(trajectory, otherwise),
    });
    if (isWritten) continue;
    if (played === null || ref.repeat === 0) played = await sampleOf(ref, store);
    const row = toRow({ sample: played.sample, ref, semantics, trajectory, outcome });
    row.message_log = await unshelved(row.message_log, { ref, store });
    const folded = { row, summary: toSummary(row, trajectory) };
    yield {
      place,
      ...(delivered === undefined ? folded : inStep(folded, { ...delivered, ...played.place })),
    };
  }
}

/** Temporal is asked about so many rollouts at most: more are without an end if a batch was cancelled early. */
const MOST_ASKED = 1000;

/**
 * The outcome of a rollout whose workflow has ended by itself although its journal has no end: a restored store has
 * lost it. After a stop, rollouts without an end are those that were not started; a step has only groups that ended.
 */
function lostEnds({ input, store, delivered, endOf, warn }: BatchToFold & Pick<Attempt, 'warn'>) {
  let asked = input.stopped && delivered === undefined ? MOST_ASKED : 0;
  return async (ref: RolloutRef, trajectory: Trajectory): Promise<Outcome | null> => {
    if (hasEnded(trajectory) || asked >= MOST_ASKED) return null;
    asked += 1;
    const end = await endOf(rolloutId(ref)).catch((error: unknown) => {
      warn(`the end of the workflow of ${rolloutId(ref)} is unknown: ${describeError(error)}`);
      return null;
    });
    if (end === null) return null;
    const { type, message } =
      end === 'completed' ? journalLost(ref, { lacks: 'its end', store }) : end;
    const stop_reason = type === 'TimedOut' ? 'timeout' : 'failed';
    return { stop_reason, failure: { type, message, turn: totalsOf(trajectory).turn_count } };
  };
}

/** Replacements by row, in order of their repeats. */
export type Replacements = ReadonlyMap<number, readonly number[]>;

/** Replacements that were started in any run of the batch, which therefore have a journal. */
async function findReplacements({
  batch_id,
  request: { completion, num_repeats },
  store,
}: CloseBatch & Pick<BatchToFold, 'request' | 'store'>): Promise<Replacements> {
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

/** The rollouts of some rows in input order: each row's repeats, then its replacements. */
function* rolloutsOf(
  rows: Iterable<number>,
  { request, replacements }: Pick<BatchToFold, 'request' | 'replacements'>,
): Generator<Place> {
  for (const row of rows) {
    for (let repeat = 0; repeat < request.num_repeats; repeat++) yield { row, repeat };
    for (const repeat of replacements.get(row) ?? []) yield { row, repeat };
  }
}

const isBehind = (place: Place, other: Place): boolean =>
  place.row > other.row || (place.row === other.row && place.repeat > other.repeat);

interface Judged {
  trajectory: Trajectory;
  outcome: Outcome;
}

/** Under `min_k` the first valid members of a group, by repeat, are its rows. The others are surplus. */
function membersOf(completion: BatchRequest['completion']) {
  const k = completion.policy === 'min_k' ? completion.k : Infinity;
  let group = -1;
  let rows = 0;
  return {
    /** Whether a rollout whose row is already written must still be counted. */
    isNeeded: ({ row }: Place, written: Place) => k !== Infinity && row === written.row,
    judged: ({ row }: Place, { trajectory, outcome }: Judged): Outcome => {
      if (row !== group) rows = 0;
      group = row;
      if (!isRow(outcome)) return outcome;
      rows += 1;
      return rows > k ? surplusOf(trajectory, k) : outcome;
    },
  };
}
