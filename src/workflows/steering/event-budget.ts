import { EVENTS_OF_BATCH } from '../../model/workflow-safe/slices.js';

/** Just below the length at which the server begins to warn. */
const MOST_EVENTS = 10_000;
/** Initiated, answered, and a workflow task of its own for either: so many events at most. */
const EVENTS_OF_SIGNAL = 5;
/** A signal that arrives, with a workflow task of its own. */
export const EVENTS_OF_NEWS = 4;
/** Until it runs 5, for its end 4, and for a stop 5. */
const EVENTS_OF_CHILD = 14;
/** Of an update that waits and folds: accepted and answered 2, a timer 2, an activity 3, and the workflow tasks between them. */
const EVENTS_OF_GROUPS = 20;
/** Planning and closing. */
const EVENTS_OF_SLICE_ALONE = 30;

/** Why a workflow rejects an update that would send so many signals from it; null: it is accepted. */
export const roomProblem = (
  { workflowId, historyLength }: { workflowId: string; historyLength: number },
  signals: number,
): string | null =>
  historyProblem(workflowId, { has: historyLength, costs: signals * EVENTS_OF_SIGNAL });

/** Why a history has no room for so many events more; null: it has. */
export function historyProblem(
  where: string,
  { has, costs }: { has: number; costs: number },
): string | null {
  if (has + costs < MOST_EVENTS) return null;
  return (
    `the history of ${where} has no room for it: up to ${has} events, and up to ${costs} of this update, ` +
    `expected fewer than ${MOST_EVENTS} in all; what was set before stays in force`
  );
}

/** Why no more groups are handed out while the batch runs: `left`, the part of it that has not ended, needs its events. */
export function groupsRoomProblem(
  { workflowId, historyLength }: { workflowId: string; historyLength: number },
  left: number,
): string | null {
  const to_come = Math.ceil(left * EVENTS_OF_BATCH);
  return historyProblem(workflowId, { has: historyLength + to_come, costs: EVENTS_OF_GROUPS });
}

/** What a slice's history has when nothing steers it, at most: a batch does not see it. */
export const eventsOfSlice = (children: number): number =>
  EVENTS_OF_SLICE_ALONE + children * EVENTS_OF_CHILD;

/** What a change of limits adds to the history of a slice with so many children, at most. */
export const eventsOfLimits = (children: number): number =>
  EVENTS_OF_NEWS + children * EVENTS_OF_SIGNAL;
