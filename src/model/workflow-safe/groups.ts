import { waitProblem } from './durations.js';
import { fieldsProblem, integerProblem } from './fields.js';

/** Update `groups` of a batch: groups that have ended, while others still run. */

export interface GroupsRequest {
  /** `to` of the previous answer; 0, the default, at first. */
  after?: number;
  /** How long to wait if there is none, at most 10 minutes; default: a minute. */
  wait?: string;
}

export interface GroupFiles {
  /** Valid ones and failures, group by group. */
  file: string;
  /** The valid ones in Arrow, where the store writes it. */
  sequences?: string;
  /** How many rollouts these are. */
  completed?: number;
}

export interface GroupsAnswer extends Omit<GroupFiles, 'file'> {
  /** Groups from `from` up to but excluding `to`, in the order in which they end, counted from 0. */
  from: number;
  to: number;
  /** The file of their rows; null: there is none yet. */
  file: string | null;
  /** The batch is closing and returns no more groups here; the others are in its result's files. */
  done: boolean;
}

export const groupsProblem = (input: unknown): string | null =>
  fieldsProblem(input, {
    after: (value) => integerProblem(value, 0),
    wait: waitProblem,
  });

/** Answers per batch: each costs events, and a history has limited room. */
const MOST_ANSWERS = 200;

/** How many groups to wait for, so that the number of answers stays within the history's room. */
export const groupsAtOnce = (groups: number): number => Math.ceil(groups / MOST_ANSWERS);

/** The history lists rows one by one, so an answer covers at most this many rollouts, or one group. */
const MOST_ROLLOUTS = 300;

export const mostGroups = (num_repeats: number): number =>
  Math.max(1, Math.floor(MOST_ROLLOUTS / num_repeats));

export function stepAskedProblem(input: unknown): string | null {
  const problem = fieldsProblem(input, {
    step: (value) => integerProblem(value, 0),
    version: (value) => integerProblem(value, 0),
    wait: waitProblem,
  });
  if (problem !== null || Object.hasOwn(input as object, 'step')) return problem;
  return 'step: expected the number of a step, got nothing';
}

export const forgetProblem = (input: unknown): string | null =>
  fieldsProblem(input, { through: (value) => integerProblem(value, 0) });
