import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import type { TicketEngine } from '../../model/policy/ticket.js';
import type { Outcome } from '../../model/policy/tickets.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { refused } from './policy-view.js';
import { release } from './pause-engine.js';
import type { PolicyRecord, ReplicaEntry } from '../../model/policy/record.js';
import { withReplica } from '../../model/policy/record.js';
import { canRestore } from '../../model/workflow-safe/policy.js';
import type { Attempt } from '../attempt.js';
import type { UpdateReplica } from '../contract/policy.js';
import type { PolicyService } from '../dependencies.js';
import { viewOf } from '../../model/policy/view.js';

/** Engines between two weights, and those that nobody has touched. */

/** An engine that waits inside a transfer answers nothing for as long. */
const QUESTION_MS = 2000;
const CALL_MS = 10_000;

/** Whether an engine answers, hangs inside a transfer, or is away. */
export type Reach = 'answers' | 'hangs' | 'away';

/**
 * Cuts off what an engine runs and ends its transfer. It stays paused, because one request would end its process. One
 * that waits inside a transfer is only asked: any other call would wait behind that.
 */
export async function cutHalfLoaded(
  control: WeightControl,
  { signal, closes = true }: { signal: AbortSignal; closes?: boolean },
): Promise<Reach> {
  const reach = await reachOf(control, signal);
  if (reach !== 'answers') return reach;
  const bound = { within_ms: CALL_MS, signal };
  try {
    await control.cutOff(bound);
    if (closes) await control.closeTransfer(bound);
    return 'answers';
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return await reachOf(control, signal);
  }
}

async function reachOf(control: WeightControl, signal: AbortSignal): Promise<Reach> {
  const bound = { within_ms: QUESTION_MS, signal };
  try {
    await control.paused(bound);
    return 'answers';
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    if (error.status !== null) return 'answers';
  }
  const isUp = await control.isUp(bound).catch(() => false);
  signal.throwIfAborted();
  return isUp ? 'hangs' : 'away';
}

export const IT_HAS_LEFT = 'it has left, drains, or has joined anew';

const WHY_IT_HANGS =
  'it waits inside a transfer and answers nothing: it is asked until it does; if its sender is gone, restart its process';

/** The outcome for an engine that may have got a part of its weights. */
export async function halfLoaded(
  control: WeightControl,
  {
    why,
    closes,
    paused_until,
    signal,
  }: { why: string; closes: boolean; paused_until: number; signal: AbortSignal },
): Promise<Outcome> {
  const reach = await cutHalfLoaded(control, { signal, closes });
  if (reach === 'away')
    return { state: 'away', needs: 'load', fault: `${why}; it does not answer` };
  if (reach === 'answers') return { state: 'unknown', needs: 'load', fault: why };
  const needs = commonMs() < paused_until ? 'load' : 'restart';
  return { state: 'unknown', needs, paused_until, fault: `${why}; ${WHY_IT_HANGS}` };
}

/** What an engine had before a ticket, and the label that it has had since. */
interface Relabelled extends Pick<TicketEngine, 'was'> {
  transit: string;
}

/**
 * Gives an engine that nobody has touched its old label. Another process behind its URL has neither of the two, and must
 * not get the label of weights that it does not have.
 */
export async function labelBack(
  control: WeightControl,
  { was, transit, ...bound }: Relabelled & Bound,
): Promise<void> {
  if (was.label === null) return;
  const said = await control.said(bound);
  if (said !== null && said !== transit && said !== was.label)
    throw refused(
      `label: expected ${JSON.stringify(transit)}, got ${JSON.stringify(said)}: another process, or another writer, is there`,
    );
  await control.label(was.label, bound);
}

/** The outcome for an engine that nobody has touched: it serves what it served, under its old label. */
export async function givenBack(
  control: WeightControl,
  {
    was,
    transit,
    closes,
    paused_until,
    signal,
  }: Relabelled & { closes: boolean; paused_until: number; signal: AbortSignal },
): Promise<Outcome> {
  if (was.state !== 'current')
    return await halfLoaded(control, {
      why: 'its weights were not known before',
      closes,
      paused_until,
      signal,
    });
  const bound = { within_ms: CALL_MS, signal };
  try {
    await labelBack(control, { was, transit, ...bound });
    await control.resume(bound);
    return { state: 'current' };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const isThere = await release(control);
    return { state: isThere ? 'unknown' : 'away', fault: error.message };
  }
}

/**
 * A replica that is half loaded is cut off first. One that hangs is asked again later; where there is nothing to load,
 * that is all that is done for it.
 */
export async function isOnlyFreed(
  { replica, version }: UpdateReplica,
  {
    policy,
    control,
    attempt: { signal },
  }: { policy: PolicyService; control: WeightControl; attempt: Pick<Attempt, 'signal'> },
): Promise<boolean> {
  const before = await policy.records.latest();
  const entry = before?.replicas[replica];
  // One that sleeps gets its memory first.
  if (entry === undefined || entry.needs === null || entry.slept !== null) return false;
  const reach = await cutHalfLoaded(control, { signal });
  const { paused_until, needs } = entry;
  if (reach !== 'answers') {
    const isLate = reach === 'hangs' && paused_until !== null && paused_until < commonMs();
    if (isLate && needs !== 'restart')
      await note(policy, { replica, paused_until, needs: 'restart' });
    const message = `${replica}: ${reach === 'hangs' ? WHY_IT_HANGS : 'it does not answer'}`;
    if (version !== null) throw refused(message);
    throw new Fault({ type: 'GenerationUnavailable', message, at: replica });
  }
  if (version !== null || canRestore(viewOf(before))) return false;
  await note(policy, { replica, paused_until: null, needs: 'load' });
  return true;
}

const note = (
  { records }: PolicyService,
  change: { replica: string } & Pick<ReplicaEntry, 'paused_until' | 'needs'>,
): Promise<PolicyRecord | null> =>
  records.change((now) => {
    const entry = now?.replicas[change.replica];
    if (now === null || entry === undefined || entry.state === 'current') return null;
    return withReplica(now, { ...change, state: 'unknown', fault: entry.fault });
  });
