import { setTimeout as sleep } from 'node:timers/promises';
import type { Bound, WeightControl } from '../../generation/weight-control.js';
import { Fault } from '../../model/faults.js';
import { isOwnAdapter } from '../../model/policy/adapters.js';
import { AGREED_IDS, distance } from '../../model/policy/agreement.js';
import type { CacheRule, PauseMode, Probe } from '../../model/policy/orders.js';
import type { ReplicaChange, TicketEngine } from '../../model/policy/record.js';
import type { Phase } from '../../model/workflow-safe/policy-states.js';
import { commonMs } from '../../platform/waits/common-clock.js';
import { refused, withoutUrl } from './policy-service.js';

/** What is done with one engine, whoever orders it. Each of these leaves it whole, or cut off. */

/** An engine that waits inside a transfer answers nothing for as long. */
const REACH_MS = 2000;
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
  const bound = { within_ms: REACH_MS, signal };
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

export const WHY_IT_HANGS =
  'it hangs inside a transfer. It is asked until it answers; if its sender is gone, restart its process';

interface Leaving {
  /** Its transfer is ended by our code. */
  closes: boolean;
  paused_until: number;
  signal: AbortSignal;
}

/** What becomes of an engine that may have got a part of its weights. */
export async function halfLoaded(
  control: WeightControl,
  { why, closes, paused_until, signal }: Leaving & { why: string },
): Promise<ReplicaChange> {
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
  { was, transit, signal }: Relabelled & Pick<Bound, 'signal'>,
): Promise<void> {
  if (was.label === null) return;
  const bound = { within_ms: CALL_MS, signal };
  const said = await control.said(bound);
  if (said !== null) checkLabel(said, { expected: [transit], also: [was.label] });
  await control.label(was.label, bound);
}

/** Throws if an engine says another label than was expected, or may be there as well. */
export function checkLabel(
  said: string | null,
  { expected, also = [] }: { expected: readonly string[]; also?: readonly string[] },
): void {
  if (said !== null && [...expected, ...also].includes(said)) return;
  throw refused(
    `label: expected ${expected.map((one) => JSON.stringify(one)).join(' or ')}, got ${JSON.stringify(said)}: another process, or another writer, is there`,
  );
}

/** What becomes of an engine that nobody has touched: it serves what it served, under its old label. */
export async function givenBack(
  control: WeightControl,
  { was, transit, ...leaving }: Relabelled & Leaving,
): Promise<ReplicaChange> {
  if (was.state !== 'current')
    return await halfLoaded(control, { ...leaving, why: 'its weights were not known before' });
  const { signal } = leaving;
  try {
    await labelBack(control, { was, transit, signal });
    await control.resume({ within_ms: CALL_MS, signal });
    return { state: 'current' };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    return await released(control, error.message);
  }
}

const DRAIN_LIMIT_MS = 60_000;

/** Streams that do not drain in time are cut. */
export async function pause(
  control: WeightControl,
  {
    drain_ms = DRAIN_LIMIT_MS,
    bound,
    ...how
  }: { mode: PauseMode; cache: CacheRule; drain_ms?: number; bound: () => Bound },
): Promise<void> {
  if (how.mode !== 'wait') {
    await control.pause(how, bound());
    return;
  }
  const { within_ms, signal } = bound();
  try {
    await control.pause(how, { within_ms: Math.min(drain_ms, within_ms), signal });
  } catch (error) {
    const isLate = error instanceof Fault && error.status === null;
    if (!isLate || signal.aborted) throw error;
    await control.pause({ ...how, mode: 'abort' }, bound());
  }
}

/** For all calls together. */
const RELEASE_MS = 30_000;
const BETWEEN_TRIES_MS = 1000;

/**
 * Ends a pause with unknown weights. Frozen streams are cut first, because they would continue under those weights;
 * then the engine is resumed. Returns false if the engine does not answer, and so serves nobody.
 */
export async function release(control: WeightControl): Promise<boolean> {
  const signal = AbortSignal.timeout(RELEASE_MS);
  const bound = { within_ms: CALL_MS, signal };
  try {
    await control.cutOff(bound);
    // It has no memory to go on with.
    if (!(await control.isAsleep(bound))) await resume(control, bound);
    return true;
  } catch (error) {
    if (error instanceof Fault) return error.status !== null;
    if (signal.aborted) return false;
    throw error;
  }
}

/** What becomes of an engine that is released because of this fault. */
export const released = async (control: WeightControl, fault: string): Promise<ReplicaChange> => ({
  state: (await release(control)) ? 'unknown' : 'away',
  fault,
});

/** Tries again: an engine that has just been cut off is there, and nobody else may end its pause. */
async function resume(control: WeightControl, bound: Bound): Promise<void> {
  for (;;) {
    try {
      await control.resume(bound);
      return;
    } catch (error) {
      if (!(error instanceof Fault) || !error.retryable) throw error;
      await sleep(BETWEEN_TRIES_MS);
      if (bound.signal.aborted) throw error;
    }
  }
}

export type InPhase = (phase: Phase, run: () => Promise<void>) => Promise<void>;

/** Names the phase that fails, in place of the engine. */
export const inNamedPhase =
  ({ replica }: WeightControl): InPhase =>
  async (phase, run) => {
    try {
      await run();
    } catch (error) {
      if (!(error instanceof Fault)) throw error;
      throw error.with({ message: `${phase}: ${withoutUrl(error.message, replica)}` });
    }
  };

/** Lets an engine with whole weights serve: its label (null: it has it), all of its memory, its cache, the resume. */
export async function openUp(
  control: WeightControl,
  opening: {
    label: string | null;
    isAsleep: boolean;
    cache: CacheRule;
    inPhase: InPhase;
    bound: () => Bound;
  },
): Promise<void> {
  const { label, isAsleep, cache, inPhase, bound } = opening;
  if (label !== null) await inPhase('label', () => control.label(label, bound()));
  if (isAsleep) await inPhase('wake', () => control.wakeUp(null, bound()));
  if (cache === 'reset') await inPhase('cache', () => control.resetCache(bound()));
  await inPhase('resume', () => control.resume(bound()));
}

/** Compares what an engine computes with the trainer's own logprobs: throws at the worst token that differs. */
export async function checkProbe(
  control: WeightControl,
  { probe, ...bound }: Bound & { probe: Probe; adapter?: string },
): Promise<void> {
  const { prompt_ids, logprobs, tolerance } = probe;
  const got = await control.promptLogprobs(prompt_ids, bound);
  const differences = got.map((logprob, i) => Math.abs(logprob - (logprobs[i] ?? NaN)));
  if (differences.every((difference) => difference <= tolerance)) return;
  const worst = differences.indexOf(Math.max(...differences));
  throw refused(
    `token ${worst + 1}: expected logprob ${logprobs[worst] ?? 'none'} ± ${tolerance}, got ${got[worst] ?? 'none'}: these are not the weights that were published`,
  );
}

/** How far each logprob may be off: the weights are the same, computed on other memory. */
const WAKE_TOLERANCE = 0.05;

/** Throws if its logprobs differ from those before it slept, under the same weights. */
export async function checkAwake(
  control: WeightControl,
  { before, ...bound }: Bound & { before: readonly number[] },
): Promise<void> {
  if (distance(before, await control.promptLogprobs(AGREED_IDS, bound)) <= WAKE_TOLERANCE) return;
  const message = 'its logprobs differ from those before it slept';
  throw new Fault({ type: 'PolicyVersionMismatch', message });
}

/** Loads it unless it is there, and unloads those of the service that no stream may use any more. */
export async function putAdapter(
  control: WeightControl,
  putting: {
    adapter: { name: string; path: string };
    service: string;
    keeps: readonly (string | null)[];
    bound: () => Bound;
  },
): Promise<void> {
  const { service, keeps, bound } = putting;
  const { name, path } = putting.adapter;
  const there = await control.adapters(bound());
  for (const other of there)
    if (isOwnAdapter(other, service) && other !== name && !keeps.includes(other))
      await control.unloadAdapter(other, bound());
  if (there.includes(name)) return;
  await control.loadAdapter({ name, path }, bound());
  if ((await control.adapters(bound())).includes(name)) return;
  throw refused(`expected ${name} among its models after it was loaded, got others`);
}
