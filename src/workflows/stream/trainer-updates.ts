import { condition, isCancellation, setHandler } from '@temporalio/workflow';
import type { FailureFacts } from '../../activities/contract.js';
import type { NextStepAnswer, StepAsked, StepResult } from '../../activities/contract/stream.js';
import { waitMs } from '../../model/workflow-safe/durations.js';
import { forgetProblem, stepAskedProblem } from '../../model/workflow-safe/groups.js';
import type { Deliveries } from './deliveries.js';
import type { Stream } from './stream-state.js';
import { watchServed } from '../activity-options.js';
import { failWith, failureOf, refuse } from '../ending.js';
import { forgetUpdate, nextStepUpdate } from '../steering/messages.js';

export type TrainerUpdates = ReturnType<typeof handleTrainerUpdates>;

interface Asking extends StepAsked {
  fault: FailureFacts | null;
  /** A later request has a higher version. */
  replaced_by: number | null;
}

interface State {
  asking: Set<Asking>;
  opened: { stream: Stream; deliveries: Deliveries } | null;
  /** Why requests are rejected; null: they are not. */
  closed: string | null;
  whyNot: (stream: Stream) => string;
}

/** Updates `next_step` and `forget` of a stream. */
export function handleTrainerUpdates(whyNot: State['whyNot']) {
  const state: State = { asking: new Set(), opened: null, closed: null, whyNot };
  setHandler(
    nextStepUpdate,
    (asked) =>
      answer(asked, state).catch((error: unknown): NextStepAnswer => {
        if (!isCancellation(error)) return refused(error);
        return { ready: false, why: state.closed ?? 'the stream is cancelled' };
      }),
    {
      validator: (asked) => {
        refuse(stepAskedProblem(asked));
      },
    },
  );
  setHandler(forgetUpdate, ({ through }) => forget(through, state).catch(refused), {
    validator: (input) => {
      refuse(forgetProblem(input));
    },
  });
  return {
    open: (stream: Stream, deliveries: Deliveries): void => {
      state.opened = { stream, deliveries };
    },
    isAsked: () => state.asking.size > 0,
    fail: (fault: FailureFacts): void => {
      for (const ask of state.asking) ask.fault ??= fault;
      state.asking.clear();
    },
    /** Rejects requests with this reason, until it is opened again. */
    close: (why: string): void => {
      state.closed = why;
    },
    reopen: (): void => {
      state.closed = null;
    },
  };
}

async function answer(asked: StepAsked, state: State): Promise<NextStepAnswer> {
  const until = Date.now() + waitMs(asked);
  const left = (): number => Math.max(1, until - Date.now());
  await condition(() => state.opened !== null || state.closed !== null, left());
  const { opened, closed } = state;
  if (opened === null) return { ready: false, why: closed ?? 'the stream is being planned' };
  const { stream, deliveries } = opened;
  const unread = await readRecord(asked, { stream, left });
  if (unread !== null) return { ready: false, why: unread };
  checkVersion(asked, stream);
  checkAsked(asked, { stream, asking: state.asking });
  if (asked.step === stream.pacing().next_step) {
    const replaced_by = await awaitPut(asked, { stream, state, left });
    if (replaced_by !== null)
      return {
        ready: false,
        why: `step ${asked.step} has been asked for with version ${replaced_by} since`,
      };
  }
  if (asked.step === stream.pacing().next_step)
    return { ready: false, why: state.closed ?? state.whyNot(stream) };
  const rows = deliveries.rowsOf(asked.step);
  if (await isSettled(rows, left())) {
    const result = await rows;
    checkDelivered(asked, result);
    return { ready: true, ...result };
  }
  return { ready: false, why: `the rows of step ${asked.step} are being written` };
}

/**
 * What the stream has seen of the record may be older than the trainer's own publish. Returns why it could not be read,
 * or null.
 */
async function readRecord(
  { step, version }: StepAsked,
  { stream, left }: { stream: Stream; left: () => number },
): Promise<string | null> {
  const { service } = stream.plan;
  const isGiven = version !== undefined && !stream.served().is_published;
  if (service === null || step !== stream.pacing().next_step || isGiven) return null;
  let unread: string | null = `the record of policy ${service} is being read`;
  const read = async (): Promise<void> => {
    try {
      stream.serves(await watchServed({ service, known: stream.served(), at_once: true }));
      unread = null;
    } catch (error) {
      if (isCancellation(error)) throw error;
      unread = `the record of policy ${service} cannot be read: ${failureOf(error).message}`;
    }
  };
  const reading = read();
  if (await isSettled(reading, left())) await reading;
  return unread;
}

async function isSettled(promise: Promise<unknown>, ms: number): Promise<boolean> {
  let isOver = false;
  const over = (): void => {
    isOver = true;
  };
  promise.then(over, over);
  return await condition(() => isOver, ms);
}

/** A version that nothing serves any more, or that nobody has published, would make the lag a lie. */
function checkVersion({ step, version }: StepAsked, stream: Stream): void {
  const { next_step, served, target = null, last_version } = stream.pacing();
  if (version === undefined || step !== next_step || !stream.now().is_published) return;
  if (version < served)
    throw outOfOrder(
      `version: expected at least ${served}, which replicas serve, got ${version}; publish the trainer's weights under a higher version (policy.next_version() in Python), or ask without a version`,
    );
  if (target === null) return;
  const most = Math.max(target, last_version ?? target) + stream.settings().versions_per_step;
  if (version > most)
    throw outOfOrder(
      `version: expected at most ${most}, because ${target} is the last one published, got ${version}; publish it first`,
    );
}

/** Rows, masks and lag of a step belong to the version for which it was delivered. */
function checkDelivered(
  { step, version }: StepAsked,
  delivered: Pick<StepResult, 'version'>,
): void {
  if (version === undefined || version === delivered.version) return;
  const given = delivered.version === null ? 'no version' : `version ${delivered.version}`;
  throw outOfOrder(
    `version: step ${step} was delivered for ${given}, got ${version}; ask for it without a version to take it as it is`,
  );
}

/**
 * Resolves when the next step is put, or the wait is over, with the version of the request that has replaced this one;
 * throws if the step will not come.
 */
async function awaitPut(
  asked: StepAsked,
  { stream, state, left }: { stream: Stream; state: State; left: () => number },
): Promise<number | null> {
  const { asking } = state;
  const ask: Asking = { ...asked, fault: null, replaced_by: null };
  const fault = (): FailureFacts | null => ask.fault;
  const { version } = asked;
  const before = stream.served().waiting?.message;
  for (const other of asking)
    if (version !== undefined && (other.version ?? version) < version) other.replaced_by = version;
  // A request without a version keeps the version of an earlier one.
  if (version !== undefined || asking.size === 0) stream.asked(version);
  asking.add(ask);
  // Nothing serves any longer: a trainer should learn of it before its wait is over.
  const isNews = (): boolean => {
    const waiting = stream.served().waiting ?? null;
    return waiting !== null && waiting.message !== before;
  };
  const isOver = (): boolean =>
    asked.step < stream.pacing().next_step ||
    fault() !== null ||
    ask.replaced_by !== null ||
    isNews() ||
    state.closed !== null;
  try {
    await condition(isOver, left());
  } finally {
    asking.delete(ask);
  }
  const failed = fault();
  if (failed !== null) throw failWith(failed);
  return ask.replaced_by;
}

async function forget(through: number, state: State): Promise<{ kept_from: number }> {
  await condition(() => state.opened !== null || state.closed !== null);
  if (state.opened === null) throw outOfOrder(state.closed ?? '');
  const { stream, deliveries } = state.opened;
  const { next_step } = stream.pacing();
  if (through >= next_step)
    throw outOfOrder(
      `through: expected a step that was delivered, at most ${next_step - 1}, got ${through}`,
    );
  if (through >= stream.now().kept_from) await deliveries.forget(through);
  stream.forgotten(through);
  return { kept_from: stream.now().kept_from };
}

function checkAsked(
  { step, version }: StepAsked,
  { stream, asking }: { stream: Stream; asking: ReadonlySet<Asking> },
): void {
  const { next_step, last_version } = stream.pacing();
  const { kept_from } = stream.now();
  if (step > next_step || step < kept_from) {
    const kept =
      kept_from < next_step ? `, or one that is kept (${kept_from} to ${next_step - 1})` : '';
    const why = step < kept_from ? `; those before were forgotten (${KEEPING})` : '';
    throw outOfOrder(`step: expected ${next_step}, the next one${kept}, got ${step}${why}`);
  }
  if (step < next_step || version === undefined) return;
  if (last_version !== null && version < last_version)
    throw outOfOrder(
      `version: expected at least ${last_version}, that of the step before, got ${version}; a trainer that has gone back publishes its weights under a higher version`,
    );
  // A trainer that died and went back asks with a higher version, and its former request may still wait.
  const other = [...asking].find((ask) => ask.version !== undefined && ask.version > version);
  if (other !== undefined)
    throw outOfOrder(
      `version: step ${step} is being asked for with version ${other.version ?? ''}, got ${version}; one trainer at a time asks for a new step`,
    );
}

const KEEPING = 'keep_steps of the request says how many are kept, forget deletes more';

const outOfOrder = (message: string): Error => failWith({ type: 'StepOutOfOrder', message });

function refused(error: unknown): never {
  throw failWith(failureOf(error));
}
