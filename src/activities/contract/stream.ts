import type { LimitsChange } from '../../model/workflow-safe/limits.js';
import type { Waiting } from '../../model/results/answers.js';
import type { PacingSettings, PacingState } from '../../model/workflow-safe/stream/state.js';
import type { StepResult } from '../../model/results/result.js';
import type { Admitted, GroupEnd, OutGroup, StepFact } from '../../model/stream/facts.js';
import type { Activities, PlayedPlan } from '../contract.js';
import type { PolicyActivities } from './policy.js';

/** What workflows and activities of a stream exchange. */
interface StreamActivities {
  /** Takes the raw input of `rolloutStream`. Plans it like a batch, and reads what the store has of it. */
  planStream: (input: unknown) => Promise<StreamPlan>;
  /** Puts groups to be started; returns what the store has. */
  admitGroups: (input: AdmitGroups) => Promise<Admitted[]>;
  /** Puts how a group has ended; returns what the store has. */
  endGroup: (input: EndGroup) => Promise<GroupEnd>;
  /** Puts that these groups are never delivered. */
  dropGroups: (input: { stream_id: string; groups: number[] }) => Promise<void>;
  /** Puts a step; returns what the store has, which may be another run's. */
  putStep: (input: { stream_id: string; fact: StepFact }) => Promise<StepFact>;
  /** The rows of a step that was put; written once. */
  closeStep: (input: { stream_id: string; step: number }) => Promise<StepResult>;
  /** Deletes the rows of delivered steps, and their groups' journals. */
  forgetSteps: (input: { stream_id: string; through: number }) => Promise<void>;
  /**
   * Resolves when the service's policy serves something other than known, or with the same after a while or, if
   * asked, at once.
   */
  watchServed: (input: { service: string; known: Served; at_once?: true }) => Promise<Served>;
}

export type AllActivities = Activities & StreamActivities & PolicyActivities;

export interface Served {
  /** The lower of the record's version and the lowest that a replica serves; it never falls. */
  served: number;
  /** Whether anything was published. If not, the trainer's versions are the served ones. */
  is_published: boolean;
  /** The lowest version that is served now, at which new groups are born; null: nobody knows. */
  born?: number | null | undefined;
  /** The highest version that anyone has published. */
  target?: number | null | undefined;
  /** Why nothing is served; null: something is. */
  waiting?: Waiting | null;
}

export interface StreamPlan extends PlayedPlan {
  stream_id: string;
  /** The service whose policy is watched; null: temporal.yaml has none. */
  service: string | null;
  pacing: PacingSettings;
  filter: 'zero_variance' | null;
  /** How many failed members of one group are replaced. */
  max_replacements: number;
  keep_steps: number | null;
  /** The folder with a folder for each step. */
  steps_dir?: string;
  found: StreamState;
}

/** The state of a stream: from the store, or from the previous run. */
export interface StreamState extends Pick<Served, 'is_published' | 'waiting'> {
  pacing: PacingState;
  /** Whether a version was ever known. */
  is_versioned: boolean;
  /** As in `Served`, of a published policy. */
  born?: number | null;
  /** Earlier steps are forgotten. */
  kept_from: number;
  /** Groups discarded since the last step. */
  out: OutGroup[];
  /** How many had been admitted when the last step was put. */
  admitted_before: number;
}

export interface AdmitGroups {
  stream_id: string;
  /** Its number; the others follow it. */
  first: number;
  count: number;
  /** If nothing is published, the version that the trainer gave last. */
  born: number | null;
  /** Whose record is read. */
  service?: string | null;
}

export interface EndGroup extends GroupEnd {
  stream_id: string;
}

/** Signal `group`, from a group to its stream. Without an outcome it was stopped and continues with the stream. */
export type GroupNews = GroupEnd | { group: number; outcome: null };

export type { Admitted, GroupEnd, OutGroup, StepFact, StepResult };

export type { StreamProgress } from '../../model/results/answers.js';

/** Update `next_step`. */
export interface StepAsked {
  step: number;
  version?: number;
  /** At most ten minutes; default: a minute. */
  wait?: string;
}

export type NextStepAnswer = ({ ready: true } & StepResult) | { ready: false; why: string };

/** The state of a stream when it was stopped. */
export interface StreamResult {
  schema_version: 1;
  stream_id: string;
  /** How many were delivered. */
  steps: number;
  admitted: number;
  out: PacingState['out'];
}

/** Input of workflow `rolloutGroup`, which only a stream starts. */
export interface GroupInput {
  stream_id: string;
  group: number;
  num_repeats: number;
  max_replacements: number;
  filter: StreamPlan['filter'];
  limits?: LimitsChange;
  /** As in the stream's plan. */
  heartbeat_timeout_ms?: number | undefined;
}
