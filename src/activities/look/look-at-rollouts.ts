import type { RolloutRef } from '../../model/batch-request.js';
import { THE_STORE } from '../../model/faults.js';
import type { Standing } from '../../model/journal/standing.js';
import {
  applyToStanding,
  generationCall,
  NO_ANSWER,
  newStanding,
  waitingOf,
} from '../../model/journal/standing.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Waiting } from '../../model/workflow-safe/waiting.js';
import { REPAIR } from '../../model/workflow-safe/waiting.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Activities } from '../contract.js';
import type { Dependencies } from '../dependencies.js';
import { viewOf } from '../policy/policy-view.js';

/** A rollout that moved since then can write its journal. */
const QUIET_S = 5;

/**
 * How far the rollouts of a batch are, from the last lines of their journals. No rollout is asked or delayed. A journal
 * that cannot be written says nothing, so Temporal is asked what the rollout waits for that has been quiet the longest.
 */
export function createLookAtRollouts({
  attempt,
  store,
  policy,
  waitOf,
}: Pick<Dependencies, 'attempt' | 'store' | 'policy' | 'waitOf'>): Activities['lookAtRollouts'] {
  return ({ batch_id }) =>
    attempt(async ({ signal }) => {
      const began = performance.now();
      const service = (await store.findRequest(batch_id))?.generation.service ?? '';
      const totals = { turns: 0, tokens: 0 };
      const waits: Waiting[] = [];
      // Without any journal it is the one that starts first.
      let quietest: Quiet = { ref: { batch_id, row: 0, repeat: 0 }, moved_at: Infinity };
      for (const place of await store.listJournals(batch_id)) {
        signal.throwIfAborted();
        const ref = { batch_id, ...place };
        const standing = newStanding();
        for (const line of await store.readLastLines(ref)) applyToStanding(standing, line);
        totals.turns += standing.turns;
        totals.tokens += standing.tokens + standing.open_tokens;
        const waiting = await waitingAt(standing, { ref, service, store });
        if (waiting !== null) waits.push(waiting);
        quietest = quieterOf(quietest, { ref, standing });
      }
      const told = await waitOfQuietest(quietest, waitOf);
      const took_ms = Math.ceil(performance.now() - began);
      const waiting =
        told !== null && UNWRITTEN.has(told.service)
          ? told
          : await withReason(mostCommonWait(waits), { told, service, policy });
      return { ...totals, waiting, took_ms };
    });
}

interface Quiet {
  ref: RolloutRef;
  /** In seconds since 1970; infinite: no journal has been read. */
  moved_at: number;
}

function quieterOf(
  before: Quiet,
  { ref, standing: { ended, moved_at } }: { ref: RolloutRef; standing: Standing },
): Quiet {
  const moved = ended === null ? (moved_at ?? 0) : Date.now() / 1000;
  return moved < before.moved_at ? { ref, moved_at: moved } : before;
}

/** What no journal can say. */
const UNWRITTEN: ReadonlySet<string> = new Set([THE_STORE, REPAIR]);

/**
 * While the store cannot be written, or a workflow task fails, what journals say is old; and no journal says why an
 * engine is silent.
 */
async function waitOfQuietest(
  { ref, moved_at }: Quiet,
  waitOf: Dependencies['waitOf'],
): Promise<Waiting | null> {
  const isRead = moved_at !== Infinity;
  if (isRead && Date.now() / 1000 - moved_at < QUIET_S) return null;
  return await waitOf(rolloutId(ref)).catch(() => null);
}

async function waitingAt(
  standing: Standing,
  { ref, service, store }: { ref: RolloutRef; service: string; store: TrajectoryStore },
): Promise<Waiting | null> {
  if (standing.ended !== null) return null;
  const now_s = Date.now() / 1000;
  const waiting = waitingOf(standing, { names: { task: '', service }, now_s });
  // A fault contains the name; without one the sample has it.
  if (waiting === null || standing.fault !== null || standing.asks !== 'environment')
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
