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
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { sliceId, slicesOf } from '../../model/workflow-safe/slices.js';
import type { Waiting } from '../../model/workflow-safe/waiting.js';
import { isOfTemporal } from '../../model/workflow-safe/waiting.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';
import { commonMs } from '../../platform/waits/common-clock.js';

/** A rollout that moved since then can write its journal. */
const QUIET_S = 2;

/**
 * How far the rollouts of a batch are, from the last lines of their journals. No rollout is asked or delayed. A journal
 * that cannot be written says nothing, so Temporal is asked what the rollout waits for that has been quiet the longest.
 */
export function createLookAtRollouts({
  attempt,
  store,
  policy,
  waitOf,
  isOver,
}: Pick<
  Dependencies,
  'attempt' | 'store' | 'policy' | 'waitOf' | 'isOver'
>): Activities['lookAtRollouts'] {
  return ({ batch_id, running, in_groups = false, by_hand = false }) =>
    attempt(async ({ signal }) => {
      const began = performance.now();
      const request = await store.findRequest(batch_id);
      const service = request?.generation.service ?? '';
      const has_workflows = request?.rollout_workflows ?? true;
      const totals = { turns: 0, tokens: 0 };
      const waits: Waits[] = [];
      const journals = in_groups ? placesOf(running) : await store.listJournals(batch_id);
      const runs = whichRun(running);
      let quietest = withoutJournal({ batch_id, running }, journals);
      for (const place of journals) {
        signal.throwIfAborted();
        const ref = { batch_id, ...place };
        const standing = newStanding();
        for (const line of await store.readLastLines(ref)) applyToStanding(standing, line);
        totals.turns += standing.turns;
        totals.tokens += standing.tokens + openTokens(standing);
        if (!runs(place)) continue;
        const waiting = await waitingAt(standing, { ref, service, store });
        if (waiting !== null) waits.push({ ref, waiting });
        quietest = quieterOf(quietest, { ref, standing, isKnown: running !== undefined });
      }
      const slices = has_workflows ? [] : await slicesIn(batch_id, { request, store });
      const asked = (ref: RolloutRef): string[] => [
        ...(has_workflows ? [by_hand ? batch_id : rolloutId(ref)] : sliceOf(ref, slices)),
        ...(in_groups ? [groupId(ref)] : []),
      ];
      const told = await waitOfQuietest(quietest, { waitOf, asked });
      const took_ms = Math.ceil(performance.now() - began);
      const waiting =
        told !== null && isUnwritten(told)
          ? told
          : await withReason(
              mostCommonWait(
                await ofOpen(waits, { isKnown: running !== undefined || !has_workflows, isOver }),
              ),
              {
                told,
                service,
                policy,
              },
            );
      return { ...totals, waiting, took_ms };
    });
}

interface Quiet {
  ref: RolloutRef;
  /** In seconds since 1970; infinite: no journal has been read. */
  moved_at: number;
}

type Running = Parameters<Activities['lookAtRollouts']>[0]['running'];

const placesOf = (running: Running = []): Place[] =>
  running.map(([row, repeat]) => ({ row, repeat }));

/** The workflow says which rollouts run; a journal without an end may be that of one that was terminated or deleted. */
function whichRun(running: Running): (place: Place) => boolean {
  if (running === undefined) return () => true;
  const places = new Set(running.map(([row, repeat]) => placeKey({ row, repeat })));
  return (place) => places.has(placeKey(place));
}

type Place = Pick<RolloutRef, 'row' | 'repeat'>;
const placeKey = ({ row, repeat }: Place): string => `${row}-${repeat}`;

/** The first that runs and has no journal yet: it has been quiet the longest. */
function withoutJournal(
  { batch_id, running }: { batch_id: string; running: Running },
  journals: readonly Place[],
): Quiet {
  const begun = new Set(journals.map(placeKey));
  const waits = (running ?? []).find(([row, repeat]) => !begun.has(placeKey({ row, repeat })));
  const [row, repeat] = waits ?? [0, 0];
  return { ref: { batch_id, row, repeat }, moved_at: waits === undefined ? Infinity : 0 };
}

interface Waits {
  ref: RolloutRef;
  waiting: Waiting;
}

/** A batch of slices does not know who runs. Where only so many wait, one that does not would matter. */
const FEW = 20;

async function ofOpen(
  waits: readonly Waits[],
  { isKnown, isOver }: { isKnown: boolean } & Pick<Dependencies, 'isOver'>,
): Promise<Waiting[]> {
  const open: Waiting[] = [];
  for (const { ref, waiting } of waits)
    if (isKnown || waits.length > FEW || !(await isOver(rolloutId(ref)).catch(() => false)))
      open.push(waiting);
  return open;
}

/** Whose journal has its end runs for a moment longer; one that is known to run still may be held up. */
function quieterOf(
  before: Quiet,
  {
    ref,
    standing: { ended, moved_at },
    isKnown,
  }: { ref: RolloutRef; standing: Standing; isKnown: boolean },
): Quiet {
  const moved = ended === null || isKnown ? (moved_at ?? 0) : commonMs() / 1000;
  return moved < before.moved_at ? { ref, moved_at: moved } : before;
}

/** What no journal can say. */
const isUnwritten = (waiting: Waiting): boolean =>
  waiting.service === THE_STORE || isOfTemporal(waiting);

/**
 * While the store cannot be written, or a workflow task fails, what journals say is old; and no journal says why an
 * engine is silent.
 */
async function waitOfQuietest(
  { ref, moved_at }: Quiet,
  { waitOf, asked }: Pick<Dependencies, 'waitOf'> & { asked: (ref: RolloutRef) => string[] },
): Promise<Waiting | null> {
  const isRead = moved_at !== Infinity;
  if (isRead && commonMs() / 1000 - moved_at < QUIET_S) return null;
  for (const id of asked(ref)) {
    const told = await waitOf(id).catch(() => null);
    if (told !== null) return told;
  }
  return null;
}

async function slicesIn(
  batch_id: string,
  { request, store }: { request: StoredRequest | null; store: TrajectoryStore },
): Promise<RowRange[]> {
  const { num_repeats = 1 } = request ?? {};
  return slicesOf({ samples: await store.sampleCount(batch_id), num_repeats });
}

/** It plays the rollout, if that has no workflow of its own. */
const sliceOf = ({ batch_id, row }: RolloutRef, slices: readonly RowRange[]): string[] =>
  slices
    .filter(({ first, last }) => first <= row && row <= last)
    .map((slice) => sliceId(batch_id, slice));

const groupId = ({ batch_id, row }: RolloutRef): string => `${batch_id}/${row}`;

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
