import { workflowInfo } from '@temporalio/workflow';

/** Below the 5,000 events that no history may have. */
const MOST_EVENTS = 4800;
/** Initiated, answered, and a workflow task of its own for either: so many events at most. */
export const EVENTS_OF_SIGNAL = 5;
/** Accepted, answered, and a workflow task of its own. */
export const EVENTS_OF_UPDATE = 5;
const EVENTS_OF_START = 5;
/** Its end, and the stop that it may have to be told. */
const EVENTS_OF_END = 4 + EVENTS_OF_SIGNAL;
export const EVENTS_OF_CHILD = EVENTS_OF_START + EVENTS_OF_END;
/** A signal that comes, with a workflow task of its own. */
export const EVENTS_OF_NEWS = 4;

/** Events that a history has to have room for, whatever steers it. */
export function eventsToCome({ starting, running }: { starting: number; running: number }): number {
  return starting * EVENTS_OF_CHILD + running * EVENTS_OF_END;
}

/** What a history has, and what else it has to have room for. */
export interface Room {
  /** Whose history. */
  where: string;
  has: number;
  toCome: number;
  /** Of what is asked for. */
  costs: number;
}

/** What keeps an update from being taken; null: nothing. */
export function roomProblem({ where, has, toCome, costs }: Room): string | null {
  if (has + toCome + costs <= MOST_EVENTS) return null;
  return (
    `the history of ${where} has no room for it: ${has} events so far, up to ${toCome} of rollouts that have yet to start or end, ` +
    `up to ${costs} of this update, expected at most ${MOST_EVENTS} in all; try again when more rollouts have ended`
  );
}

/** The events of this workflow's history, and those of signals on their way, of which it may not know yet. */
export interface EventBudget {
  /** Nobody waits for a signal to arrive: whoever it can't reach may just have ended, and its result says so. */
  tell: (sent: Promise<void> | undefined) => void;
  has: () => number;
}

export function createEventBudget(): EventBudget {
  let telling = 0;
  const arrived = (): void => {
    telling -= 1;
  };
  return {
    tell: (sent) => {
      if (sent === undefined) return;
      telling += 1;
      sent.then(arrived, arrived);
    },
    has: () => workflowInfo().historyLength + telling * EVENTS_OF_SIGNAL,
  };
}

/** What a batch knows of a slice's history, which it does not see: everything at its most. */
export interface SliceEvents {
  rollouts: number;
  /** As many as it may start in place of failed ones. */
  replacements: number;
  /** The most that it had in flight: those that a change of limits is sent to. */
  in_flight: number;
  /** On what it was told while it ran. */
  spent: number;
}

/** Planning and closing. */
const EVENTS_OF_SLICE_ALONE = 30;

export const eventsOfLimits = ({ rollouts, replacements, in_flight }: SliceEvents): number =>
  EVENTS_OF_NEWS + EVENTS_OF_SIGNAL * Math.min(in_flight, rollouts + replacements);

export function sliceRoom(where: string, slice: SliceEvents): Omit<Room, 'costs'> {
  const children = slice.rollouts + slice.replacements;
  const toCome = eventsToCome({ starting: children, running: 0 });
  return { where, has: EVENTS_OF_SLICE_ALONE + slice.spent, toCome };
}
