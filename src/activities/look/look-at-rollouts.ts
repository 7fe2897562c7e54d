import type { RolloutRef } from '../../model/batch-request.js';
import { THE_STORE } from '../../model/faults.js';
import type { Standing } from '../../model/journal/standing.js';
import {
  applyToStanding,
  generationCall,
  lastFault,
  NO_ANSWER,
  newStanding,
  openTokens,
  waitingOf,
} from '../../model/journal/standing.js';
import { VALID_STOP_REASONS } from '../../model/workflow-safe/stop-reasons.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { type Place, placeText, rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { rowsOf, sliceId, slicesOf } from '../../model/workflow-safe/slices.js';
import type { Waiting } from '../../model/results/answers.js';
import { isOfTemporal } from '../../model/workflow-safe/waiting.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Ended } from '../contract.js';
import type { Body, Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/** A rollout that moved since then can write its journal. */
const QUIET_S = 2;

/**
 * How far the rollouts of a batch are, from the last lines of their journals. No rollout is asked or delayed. A journal
 * that cannot be written says nothing, so Temporal is asked what the rollout waits for that has been quiet the longest.
 */
export const lookAtRollouts: Body<'lookAtRollouts'> = async ([input], dependencies) => {
  const { batch_id, running: places, in_groups = false, by_hand = false } = input;
  const { attempt, store } = dependencies;
  const began = performance.now();
  const request = await store.findRequest(batch_id);
  const service = request?.generation.service ?? '';
  const has_workflows = request?.rollout_workflows ?? true;
  const totals = { turns: 0, tokens: 0 };
  const ended: Ended = { valid: 0, reward_sum: 0 };
  const waits: { ref: RolloutRef; waiting: Waiting }[] = [];
  // The workflow says which rollouts run, unless it has slices. Else a journal without an end may be that of one that was
  // terminated or deleted.
  const running = places?.map(([row, repeat]): Place => ({ row, repeat })) ?? null;
  const journals = in_groups ? (running ?? []) : await store.listJournals(batch_id);
  const runs = running && textsOf(running);
  const slices =
    request === null || running !== null
      ? []
      : slicesOf(await store.sampleCount(batch_id), request);
  const all = running ?? placesIn(slices, request?.num_repeats);
  const seen: Quiet[] = [];
  for (const place of journals) {
    attempt.signal.throwIfAborted();
    const ref = { batch_id, ...place };
    const standing = newStanding();
    for (const line of await store.readLastLines(ref)) applyToStanding(standing, line);
    totals.turns += standing.turns;
    totals.tokens += standing.tokens + openTokens(standing);
    // A repeat beyond these replaces one that failed, and a later run may not play it.
    const isMember = place.repeat < (request?.num_repeats ?? 0);
    // A valid end stays when the rollout is opened again.
    if (isMember && VALID_STOP_REASONS.has(standing.ended)) {
      ended.valid += 1;
      ended.reward_sum += standing.total_reward;
    }
    if (runs?.has(placeText(place)) === false) continue;
    const waiting = await waitingAt(standing, { ref, service, store });
    if (waiting !== null) waits.push({ ref, waiting });
    // A rollout with an end may run only if the workflow says so.
    const mayRun = standing.ended === null || running !== null;
    seen.push({ place, moved_at: standing.moved_at ?? 0, mayRun });
  }
  const asked = (place: Place): string[] => {
    const ref = { batch_id, ...place };
    return [
      ...(has_workflows ? [by_hand ? batch_id : rolloutId(ref)] : []),
      ...sliceOf(ref, slices),
      ...(in_groups ? [`${batch_id}/${place.row}`] : []),
    ];
  };
  const quiet = quietOf(withoutJournal(all, journals), seen);
  const told = await waitOfQuiet(quiet, { ...dependencies, asked });
  const took_ms = Math.ceil(performance.now() - began);
  const isKnown = running !== null || !has_workflows || waits.length > FEW;
  const mostWaitFor = async (): Promise<Waiting | null> => {
    const open: Waiting[] = [];
    for (const { ref, waiting } of waits)
      if (isKnown || !(await dependencies.isOver(rolloutId(ref)).catch(() => false)))
        open.push(waiting);
    return await withReason(mostCommonWait(open), { ...dependencies, told, service });
  };
  const waiting = told !== null && isUnwritten(told) ? told : await mostWaitFor();
  // Whether a truncated one is dropped only its whole journal says.
  const isCounted = request !== null && !in_groups && request.overlong !== 'drop';
  return { ...totals, ...(isCounted && { ended }), waiting, took_ms };
};

interface Quiet {
  place: Place;
  /** In seconds since 1970; 0: no journal says when. */
  moved_at: number;
  mayRun: boolean;
}

const textsOf = (places: readonly Place[]): ReadonlySet<string> => new Set(places.map(placeText));

/** A batch of slices does not know who runs. Where only so many wait, one that does not would matter. */
const FEW = 20;

/** All of a batch of slices, in the order in which each slice starts them; of one that is not there, its first. */
function* placesIn(slices: readonly RowRange[], num_repeats = 1): Generator<Place> {
  if (slices.length === 0) yield { row: 0, repeat: 0 };
  for (const row of slices.flatMap(rowsOf))
    for (let repeat = 0; repeat < num_repeats; repeat++) yield { row, repeat };
}

/** The first that runs, or is the next to run, and has no journal yet. */
function withoutJournal(all: Iterable<Place>, journals: readonly Place[]): Quiet | null {
  const begun = textsOf(journals);
  for (const place of all)
    if (!begun.has(placeText(place))) return { place, moved_at: 0, mayRun: true };
  return null;
}

/**
 * Whom Temporal is asked about: the one that has no journal yet, the one that has been quiet the longest, and the one that
 * moved last. The first may only wait for a slot. The second may be of an earlier run, and not have begun again; a batch of
 * slices does not know. The third may be the last of a slice that is being closed.
 */
function quietOf(unopened: Quiet | null, seen: readonly Quiet[]): Quiet[] {
  const inOrder = seen.toSorted((a, b) => a.moved_at - b.moved_at);
  const quietest = inOrder.find(({ mayRun }) => mayRun);
  return [unopened, quietest, inOrder.at(-1)]
    .filter((one) => one != null)
    .filter(({ moved_at }) => commonMs() / 1000 - moved_at >= QUIET_S);
}

/** Waits that no journal can tell of. */
const isUnwritten = (waiting: Waiting): boolean =>
  waiting.service === THE_STORE || isOfTemporal(waiting);

/**
 * While the store cannot be written, or a workflow task fails, what journals say is old; and no journal says why an
 * engine is silent.
 */
async function waitOfQuiet(
  quiet: readonly Quiet[],
  { waitOf, asked }: Pick<Dependencies, 'waitOf'> & { asked: (place: Place) => string[] },
): Promise<Waiting | null> {
  let first: Waiting | null = null;
  for (const id of new Set(quiet.flatMap(({ place }) => asked(place)))) {
    const told = await waitOf(id).catch(() => null);
    if (told !== null && isUnwritten(told)) return told;
    first ??= told;
  }
  return first;
}

/** It plays the rollout, if that has no workflow of its own, and closes its rows. */
const sliceOf = ({ batch_id, row }: RolloutRef, slices: readonly RowRange[]): string[] =>
  slices
    .filter(({ first, last }) => first <= row && row <= last)
    .map((slice) => sliceId(batch_id, slice));

async function waitingAt(
  standing: Standing,
  { ref, service, store }: { ref: RolloutRef; service: string; store: TrajectoryStore },
): Promise<Waiting | null> {
  if (standing.ended !== null) return null;
  const now_s = commonMs() / 1000;
  const waiting = waitingOf(standing, { names: { task: '', service }, now_s });
  // A fault contains the name; without one the sample has it.
  if (waiting === null || lastFault(standing) !== null || standing.asks !== 'environment')
    return waiting;
  const { task_name: task } = await store.readSample(ref);
  return waitingOf(standing, { names: { task, service }, now_s });
}

/**
 * Journals do not say why no engine answers: a policy whose weights no replica could load serves nothing, and an engine
 * may be asleep.
 */
async function withReason(
  waiting: Waiting | null,
  {
    told,
    service,
    policy,
  }: { told: Waiting | null; service: string } & Pick<Dependencies, 'policy'>,
): Promise<Waiting | null> {
  if (waiting?.call !== generationCall(service)) return waiting;
  const record = await policy(service)?.records.latest();
  const nothing = record ? whyNothingServes(viewOf(record)) : null;
  if (nothing !== null) return { ...waiting, service: `policy ${service}`, message: nothing };
  if (waiting.message !== NO_ANSWER || told === null) return waiting;
  const isOfEngine = (told.call ?? waiting.call) === waiting.call;
  return isOfEngine ? { ...waiting, service: told.service, message: told.message } : waiting;
}

/** Failing services come before silent ones; the text is that of the rollout with the most tries. */
function mostCommonWait(waits: readonly Waiting[]): Waiting | null {
  const alike = new Map<string, Waiting & { rollouts: number }>();
  for (const waiting of waits) {
    const { call, service, tries = 0 } = waiting;
    const key = JSON.stringify([call ?? service, tries > 0]);
    const other = alike.get(key);
    const rollouts = (other?.rollouts ?? 0) + 1;
    const most = other !== undefined && (other.tries ?? 0) >= tries ? other : waiting;
    alike.set(key, { ...most, rollouts });
  }
  const rank = ({ tries = 0, rollouts }: Waiting & { rollouts: number }): number =>
    (tries > 0 ? 1e9 : 0) + rollouts;
  return [...alike.values()].toSorted((a, b) => rank(b) - rank(a))[0] ?? null;
}
