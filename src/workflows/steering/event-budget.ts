import { EVENTS_OF_BATCH } from '../../model/workflow-safe/slices.js';

/** Just below the length at which the server begins to warn. */
const MOST_EVENTS = 10_000;
/** Initiated, answered, and a workflow task for each: at most this many events. */
const EVENTS_OF_SIGNAL = 5;
/** An incoming signal with its own workflow task. */
export const EVENTS_OF_NEWS = 4;
/** 5 until it runs, 4 for its end, and 5 for a stop. */
const EVENTS_OF_CHILD = 14;
/**
 * An update that waits and folds: accepted and answered 2, a timer 2, an activity 3, and the workflow tasks between
 * them.
 */
const EVENTS_OF_GROUPS = 20;
/** Planning and closing. */
const EVENTS_OF_SLICE_ALONE = 30;

/** Why a workflow rejects an update that would send this many signals; null: it is accepted. */
export const roomProblem = (
  { workflowId, historyLength }: { workflowId: string; historyLength: number },
  signals: number,
): string | null =>
  historyProblem(workflowId, { has: historyLength, costs: signals * EVENTS_OF_SIGNAL });

/** Why a history has no room for this many further events; null: it has. */
export function historyProblem(
  where: string,
  { has, costs }: { has: number; costs: number },
): string | null {
  if (has + costs < MOST_EVENTS) return null;
  return (
    `the history of ${where} has no room for this update: it has up to ${has} events, the update adds up to ${costs}, ` +
    `expected fewer than ${MOST_EVENTS} in all. Earlier limits stay in force`
  );
}

/**
 * Why no more groups are handed out while the batch runs: `left`, the fraction of it that has not ended, needs its
 * events.
 */
export function groupsRoomProblem(
  { workflowId, historyLength }: { workflowId: string; historyLength: number },
  left: number,
): string | null {
  const to_come = Math.ceil(left * EVENTS_OF_BATCH);
  return historyProblem(workflowId, { has: historyLength + to_come, costs: EVENTS_OF_GROUPS });
}

/** Events of a slice's history without steering, at most. The batch does not see that history. */
export const eventsOfSlice = (children: number): number =>
  EVENTS_OF_SLICE_ALONE + children * EVENTS_OF_CHILD;

/** Events that a change of limits adds to the history of a slice with this many children, at most. */
export const eventsOfLimits = (children: number): number =>
  EVENTS_OF_NEWS + children * EVENTS_OF_SIGNAL;
