import type { PauseMode } from '../../model/policy/publish.js';
import type { HeldEngine, PublishSummary } from '../../model/results/answers.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import type { PolicyView, Rule } from '../../model/workflow-safe/policy.js';

export type {
  PolicyState,
  PolicyStatus,
  PublishResult,
  PublishSummary,
  SleepAnswer,
} from '../../model/results/answers.js';

/** What workflow `policy` and its activities exchange. */
export interface PolicyActivities {
  /** Takes the raw input of update `publish`. Refuses it before anything is touched, or records the new target. */
  settlePublish: (input: {
    service: string;
    publish: unknown;
    heard?: Heard;
  }) => Promise<PublishPlan>;
  /** Takes one replica through all phases. Fails once it is `unknown` or `away`, and not paused. */
  updateReplica: (input: UpdateReplica) => Promise<UpdatedReplica>;
  /** Makes the target the `version` if enough replicas have it. */
  concludePublish: (input: { service: string } & Rule) => Promise<PolicyView>;
  /** Takes the raw input of update `begin`. Holds the engines, or fails with none of them held. */
  beginTransfer: (input: {
    service: string;
    nonce: string;
    begin: unknown;
    heard?: Heard;
  }) => Promise<{ answer: BeginAnswer; view: PolicyView }>;
  /** Takes the raw input of update `finish`. */
  finishTransfer: (input: { service: string; finish: unknown }) => Promise<FinishedTransfer>;
  /** Takes the raw input of update `abandon`; or ends a ticket whose holder is silent, as if all were touched. */
  abandonTransfer: (
    input: { service: string; why: string } & ({ abandon: unknown } | { nonce: string }),
  ) => Promise<AbandonedTransfer>;
  /** Takes the raw input of update `attach`. */
  attachCheckpoint: (input: { service: string; attach: unknown }) => Promise<AbandonedTransfer>;
  /** Takes the raw input of update `sleep`. Fails with the engines to be woken, if one of them refuses. */
  sleepEngines: (input: {
    service: string;
    nonce: string;
    sleep: unknown;
    heard?: Heard;
  }) => Promise<PolicyView>;
  /**
   * Takes the raw input of update `wake`; or ends a sleep that lasts for too long. With memory for weights alone they sleep
   * on, otherwise each has to be restored.
   */
  wakeEngines: (
    input: { service: string } & ({ wake: unknown } | { nonce: string; why: string }),
  ) => Promise<AbandonedTransfer>;
  /** Takes the raw input of update `release`. */
  releaseHolder: (input: { service: string; release: unknown }) => Promise<PolicyView>;
  /** Takes the raw input of update `engines`, `join`, `drain` or `leave`. */
  changeReplicas: (input: {
    service: string;
    name: ReplicasUpdate;
    input: unknown;
  }) => Promise<PolicyView>;
  /** The record, for the replicas that temporal.yaml has now. */
  surveyReplicas: (input: { service: string }) => Promise<PolicySurvey>;
}

/** The answer of update `begin`. */
export interface BeginAnswer {
  ticket: string;
  version: number;
  engines: HeldEngine[];
  /** A collective that was made for another fleet is not for this one. */
  fleet: string;
  /** Whether the collectives have to be made anew. */
  init: boolean;
}

export interface FinishedTransfer {
  version: number;
  paused_s: number;
  /** By URL. */
  faults: Record<string, string>;
  view: PolicyView;
}

export interface AbandonedTransfer {
  /** The version of which files are there, but which has not been brought yet; null: none. */
  repair: { version: number; quorum: number | null } | null;
  view: PolicyView;
}

export type ReplicasUpdate = 'engines' | 'join' | 'drain' | 'leave';

export interface PolicySurvey {
  heartbeat_timeout_ms: number;
  /** null: nothing was ever published. */
  view: PolicyView | null;
}

export interface PublishPlan extends Rule {
  version: number;
  mode: PauseMode;
  drain_limit: string;
  /** Guarantees that are weaker than expected, in words. */
  notes: string[];
  view: PolicyView;
}

/** Input of workflow `policy`. */
export interface PolicyInput {
  service: string;
  /** From the previous run. */
  updates?: PublishSummary[];
  /** Likewise. */
  heard?: Heard;
}

export interface UpdateReplica {
  service: string;
  replica: string;
  /** null: the record's. */
  version: number | null;
  mode: PauseMode;
  /** For mode `wait`. */
  drain_limit?: string;
}

export interface UpdatedReplica {
  /** Seconds from the order to pause to the end of the resume. */
  paused_s: number;
  load_s: number;
  view: PolicyView;
}
