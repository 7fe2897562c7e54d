import type { Limits, LimitsChange } from '../../model/workflow-safe/limits.js';
import type { Out, PacingSettings, PacingState } from '../../model/workflow-safe/stream/state.js';
import type { Activities, BatchResult } from '../contract.js';

/** What workflows and activities of a stream say to each other. */
export interface StreamActivities {
  /** Takes the raw input of `rolloutStream`. Plans it as a batch is planned, and reads what the store has of it. */
  planStream: (input: unknown) => Promise<StreamPlan>;
  /** Puts groups that are to be started; returns them as they stand. */
  admitGroups: (input: AdmitGroups) => Promise<Admitted[]>;
  /** Puts how a group has ended; returns what stands. */
  endGroup: (input: EndGroup) => Promise<GroupEnd>;
  /** Puts that these groups are never delivered. */
  dropGroups: (input: { stream_id: string; groups: number[] }) => Promise<void>;
  /** Puts a step; returns what stands, which may be another's. */
  putStep: (input: { stream_id: string; fact: StepFact }) => Promise<StepFact>;
  /** The rows of a step that was put; written once. */
  closeStep: (input: { stream_id: string; step: number }) => Promise<StepResult>;
  /** Deletes the rows of delivered steps, and what their groups were played with. */
  forgetSteps: (input: { stream_id: string; through: number }) => Promise<void>;
  /** Resolves when the service's policy serves something else than is known, or with the same after a while. */
  watchServed: (input: { service: string; known: Served }) => Promise<Served>;
}

/** Of all workflow types. */
export type AllActivities = Activities & StreamActivities;

export interface Served {
  /** The lower of the record's version and the lowest that a replica serves; it never falls. */
  served: number;
  /** Has anything been published? Else the versions that the trainer gives are what is served. */
  is_published: boolean;
}

/** All that a stream's workflow must know. */
export interface StreamPlan {
  stream_id: string;
  /** Whose policy is watched; null: temporal.yaml has none. */
  service: string | null;
  pacing: PacingSettings;
  /** Of the request. */
  limits: Limits;
  filter: 'zero_variance' | null;
  /** Of each group. */
  max_replacements: number;
  keep_steps: number | null;
  /** As the store has it. */
  found: StreamState;
}

/** What a stream has come to: from the store, or from the run before. */
export interface StreamState {
  pacing: PacingState;
  is_published: boolean;
  /** Has a version ever been known? */
  is_versioned: boolean;
  /** Steps before it are forgotten. */
  kept_from: number;
  /** Groups that went out since the last step. */
  out: OutGroup[];
  /** How many had been admitted when the last step was put. */
  admitted_before: number;
}

export interface OutGroup {
  group: number;
  as: Out;
}

export interface Admitted {
  group: number;
  /** What was served then: no token of it is older; null: no version was known. */
  born: number | null;
}

export interface AdmitGroups {
  stream_id: string;
  /** Its number; the others follow it. */
  first: number;
  count: number;
  born: number | null;
}

/** How a group has ended by itself. */
export interface GroupEnd {
  group: number;
  outcome: 'complete' | 'filtered' | 'failed';
  /** Members that are rows. */
  valid: number;
  /** All that were started, replacements included. */
  members: number;
}

export interface EndGroup extends GroupEnd {
  stream_id: string;
}

/** Signal `group`, from a group to its stream; without an outcome: it was stopped, and goes on with the stream. */
export type GroupNews = GroupEnd | { group: number; outcome: null };

/** `steps/<step>/step.json`. */
export interface StepFact {
  schema_version: 1;
  step: number;
  /** Of the weights that train on it; null: none was ever known. */
  version: number | null;
  /** Delivered with it, by number. */
  groups: number[];
  /** The last one: the epochs are used up. */
  final: boolean;
  /** Groups that run or wait then. */
  open: number[];
  /** Since the step before. */
  out: OutGroup[];
  /** Groups of the stream's whole life. */
  admitted: number;
  totals: PacingState['out'];
  counts: StepCounts;
}

/** Of groups, as the step is put; the last four since the step before. */
export interface StepCounts extends Record<Out, number> {
  in_flight: number;
  banked: number;
  admitted: number;
}

/** The rows of a step: a batch's result, and which step it is. */
export interface StepResult extends BatchResult {
  step: number;
  version: number | null;
  final: boolean;
}

/** Update `next_step`. */
export interface StepAsked {
  step: number;
  version?: number;
  /** Bounded; a minute where it is absent. */
  wait?: string;
}

export type NextStepAnswer = ({ ready: true } & StepResult) | { ready: false; why: string };

/** What a stream was when it was stopped. */
export interface StreamResult {
  schema_version: 1;
  stream_id: string;
  /** How many have been delivered. */
  steps: number;
  admitted: number;
  out: PacingState['out'];
}

/** Query `progress` of workflow `rolloutStream`. */
export interface StreamProgress {
  phase: 'planning' | 'running' | 'stopping' | 'done';
  /** The next one. */
  step: number;
  kept_from: number;
  /** Of the step before. */
  version: number | null;
  served: number | null;
  /** Groups. */
  in_flight: number;
  banked: number;
  admitted: number;
  out: PacingState['out'];
  /** Versions that the oldest open group may be behind when it is delivered now; null: unknown. */
  lag: number | null;
  max_in_flight: number;
  /** What the next step waits for. */
  why: string;
}

/** Input of workflow `rolloutGroup`, which only a stream starts. */
export interface GroupInput {
  stream_id: string;
  group: number;
  num_repeats: number;
  max_replacements: number;
  filter: StreamPlan['filter'];
  limits?: LimitsChange;
}
