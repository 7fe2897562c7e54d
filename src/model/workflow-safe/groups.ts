import { toMs, waitProblem } from './durations.js';
import { fieldsProblem, integerProblem } from './fields.js';

/** Update `groups` of a batch: groups that have ended, while others still run. */

export interface GroupsRequest {
  /** `to` of the answer before; 0, the default, to begin with. */
  after?: number;
  /** How long to wait where there is none, at most 10 minutes; a minute where it is absent. */
  wait?: string;
}

export interface GroupsAnswer {
  /** In the order in which groups end, counted from 0: those from `from` up to `to`, which is not included. */
  from: number;
  to: number;
  /** Their rows, valid ones and failures, group by group; null: there is none yet. */
  file: string | null;
  /** No more are handed out: the batch is being closed, and the others are in its result's files. */
  done: boolean;
}

const USUAL_WAIT = '60s';

/** What is wrong with the input of update `groups`; null: nothing. */
export const groupsProblem = (input: unknown): string | null =>
  fieldsProblem(input, {
    after: (value) => integerProblem(value, 0),
    wait: waitProblem,
  });

export const waitMs = ({ wait = USUAL_WAIT }: GroupsRequest): number => toMs(wait);

/** Each answer costs events, and a history has room for so many. */
const MOST_ANSWERS = 200;

/** How many groups are waited for, so that there are no more answers than a history has room for. */
export const groupsAtOnce = (groups: number): number => Math.ceil(groups / MOST_ANSWERS);

/** Rows are named one by one in the history: in this many rollouts, or in one group. */
const MOST_ROLLOUTS = 300;

/** How many groups an answer has at most. */
export const mostGroups = (num_repeats: number): number =>
  Math.max(1, Math.floor(MOST_ROLLOUTS / num_repeats));
