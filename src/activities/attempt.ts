import { setMaxListeners } from 'node:events';
import { asyncLocalStorage, Context } from '@temporalio/activity';
import type { z } from 'zod';
import { Fault } from '../model/faults.js';
import { SILENT_S } from '../model/journal/standing.js';
import type { Waiting } from './contract.js';
import type { Bug } from './failure.js';
import { bugIn, finalFailure, toFailure } from './failure.js';
import { BACK_AFTER_MS, GaveWay } from './giving-way.js';
import type { UnservedClock, AskedCall, MayTell, Told } from './waits.js';
import {
  createUnservedClock,
  askVisibly,
  createTelling,
  createWaitReporter,
  waitAfter,
} from './waits.js';
import type { Slots } from './slots.js';
import { createSlots } from './slots.js';

export type Attempt = ReturnType<typeof attemptOf>;

export interface Kept<T> {
  /** null: nothing is. */
  get: () => T | null;
  set: (value: T | null) => void;
}

/** Beside what it waits for; small, because Temporal keeps it with each beat. */
export interface Place {
  turn: number;
  /** So far, what the environment said included. */
  tokens: number;
  /** Whom it asks. */
  asks: 'generation' | 'environment' | 'agent';
}

export interface AttemptDependencies {
  /** Signals the attempt's own workflow that it waits for a service; best effort. */
  signalWaiting: (
    to: { workflow_id: string; run_id: string; workflow_type: string },
    waiting: Waiting | null,
  ) => Promise<void>;
  /** How long a call may be silent before the workflow is signalled. */
  silent_ms?: number;
  /** Absent: there are enough. */
  slots?: Slots;
  mayTell?: MayTell;
}

interface HeartbeatDetails extends Told {
  checkpoint: unknown;
  /** How long no replica served it, in all attempts. */
  held_ms: number;
  at?: Place;
  /** The error of our own code by which the attempt failed. */
  bug?: Bug | null;
  /** The attempt gave its slot to others. */
  gave_way?: true;
}

/** For activities without a heartbeat timeout. Beats come after a third of it: one may be lost. */
const DEFAULT_HEARTBEAT_MS = 10_000;

export type RunAttempt = <T>(body: (attempt: Attempt) => Promise<T>) => Promise<T>;

/**
 * Runs an activity's body with a heartbeat on a timer, since a stream may be silent for minutes. Turns faults into
 * failures. Makes waiting visible: the first attempt that has to wait signals its workflow, and so does each after
 * twice as many tries. The attempt that succeeds signals the end of the wait. A day of tries every 15 s makes 14
 * signals; where very many wait at once, only the first ones do. Heartbeat details carry this state from attempt to attempt.
 */
export function createRunAttempt({
  signalWaiting,
  silent_ms = SILENT_S * 1000,
  slots = createSlots(new Map()),
  mayTell = createTelling(),
}: AttemptDependencies): RunAttempt {
  return async (body) => {
    const context = Context.current();
    // Nothing asks for it after this. Node.js before 24 follows every promise of a process while one is kept, which takes
    // time and memory. workers/connect.ts does the same for calls.
    asyncLocalStorage.disable();
    const { info, cancellationSignal: signal } = context;
    // Every call of an attempt has it, and there may be many at once.
    setMaxListeners(0, signal);
    const before = (info.heartbeatDetails ?? {}) as Partial<HeartbeatDetails>;
    const {
      waiting = 0,
      since = null,
      holds = false,
      waits_for = null,
      checkpoint = null,
    } = before;
    const unserved = createUnservedClock(before.held_ms ?? 0);
    if (before.gave_way === true) unserved.count(holds);
    const told = { waiting, since, holds, ...(before.gave_way && { waits_for }) };
    const state: State = { told, checkpoint, unserved, place: null };
    const workflow = {
      workflow_id: info.workflowExecution?.workflowId ?? '',
      run_id: info.workflowExecution?.runId ?? '',
      workflow_type: info.workflowType ?? '',
    };
    const beat = (): void => {
      context.heartbeat(detailsOf(state));
    };
    const reportWaiting = createWaitReporter({ ...state, mayTell }, (news) => {
      // Beats are rare, and a batch reads it there.
      beat();
      return signalWaiting(workflow, news);
    });
    const running: RunningAttempt = { context, workflow, before, state, reportWaiting };
    const leave = slots.enter(info.taskQueue);
    const heartbeat = setInterval(beat, (info.heartbeatTimeoutMs ?? DEFAULT_HEARTBEAT_MS) / 3);
    try {
      const result = await body(attemptOf(running, { silent_ms, slots }));
      await reportWaiting(null);
      return result;
    } catch (error) {
      throw await failureAfter(error, running);
    } finally {
      clearInterval(heartbeat);
      leave();
    }
  };
}

interface RunningAttempt {
  context: Context;
  workflow: { workflow_id: string; run_id: string };
  before: Partial<HeartbeatDetails>;
  state: State;
  reportWaiting: ReturnType<typeof createWaitReporter>;
}

/** The content of the next heartbeat. */
interface State {
  told: Told;
  checkpoint: unknown;
  unserved: UnservedClock;
  place: (() => Place) | null;
}

const detailsOf = ({ told, checkpoint, unserved, place }: State): HeartbeatDetails => ({
  ...told,
  checkpoint,
  held_ms: unserved.ms(),
  ...(place !== null && { at: place() }),
});

function attemptOf(
  { context, workflow, before, state, reportWaiting }: RunningAttempt,
  { silent_ms, slots }: { silent_ms: number; slots: Slots },
) {
  const { info } = context;
  // Both times are the server's, because this machine's clock may differ.
  const waited_ms = info.currentAttemptScheduledTimestampMs - info.scheduledTimestampMs;
  const began = performance.now();
  return {
    workflow_id: workflow.workflow_id,
    run_id: workflow.run_id,
    /** 1 for the first. */
    number: info.attempt,
    /** Aborts on cancellation, worker shutdown and lost heartbeats, with the reason to throw. */
    signal: context.cancellationSignal,
    /** Milliseconds since the activity was first scheduled, without those in which no replica served. */
    elapsed_ms: () => waited_ms + performance.now() - began - state.unserved.ms(),
    /**
     * Milliseconds until this attempt in which none gave a sign: the task was lost on its way to a worker, or its worker
     * died at once. An attempt that fails says why in a last heartbeat.
     */
    lost_ms: info.attempt > 1 && info.heartbeatDetails === undefined ? waited_ms : 0,
    /** A value that this attempt leaves to the next one, and finds of the one before, if it has this shape. */
    keeps: <T>(schema: z.ZodType<T>): Kept<T> => ({
      get: () => schema.safeParse(state.checkpoint).data ?? null,
      set: (value) => {
        state.checkpoint = value;
      },
    }),
    /** Signals the workflow that this attempt waits for a service, or, with null, that the wait is over. */
    reportWaiting,
    /** Makes a call, and signals the workflow while the call brings no answer and no part of one. */
    asks: <T>(asked: AskedCall, answer: () => Promise<T>): Promise<T> =>
      askVisibly(asked, { answer, reportWaiting, silent_ms }),
    /** All slots of its queue are taken in this process, so another activity may wait for one. */
    isCrowded: () => slots.areTaken(info.taskQueue),
    /** Its workflow knows that no replica serves the rollout, maybe from an attempt before. */
    isUnserved: () => state.told.holds,
    /** The attempt before this one gave its slot to others while it waited. */
    hasGivenWay: before.gave_way === true,
    /** Shows people where the rollout is: with each heartbeat, what this then says. */
    isAt: (place: () => Place): void => {
      state.place = place;
    },
    warn: (message: string): void => {
      context.log.warn(message);
    },
    /** The priority of its task; Temporal keeps to it only where slots of workers are given out. */
    ...(info.priority !== undefined && { priority: info.priority }),
  };
}

/** The last heartbeat says how this attempt has ended: to the next one, and to those who ask Temporal. */
async function failureAfter(
  error: unknown,
  { context, before, state, reportWaiting }: RunningAttempt,
): Promise<unknown> {
  if (error instanceof GaveWay) {
    const held_ms = state.unserved.ms() + (state.told.holds ? BACK_AFTER_MS : 0);
    context.heartbeat({ ...detailsOf(state), held_ms, gave_way: true });
    return toFailure(error);
  }
  if (error instanceof Fault && error.trace !== null) context.log.warn(error.trace);
  const bug = context.cancellationSignal.aborted ? null : bugIn(error, before.bug ?? null);
  const waiting = waitAfter(error, { bug, tries: context.info.attempt, ...state });
  if (waiting !== null) await reportWaiting(waiting);
  context.heartbeat({ ...detailsOf(state), waits_for: waiting, bug });
  return finalFailure(toFailure(error), bug);
}
