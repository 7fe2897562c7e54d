import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { RolloutRef } from '../model/batch-request.js';
import type { StopReason } from '../model/workflow-safe/stop-reasons.js';
import type { Limits, LimitsChange, TurnLimits } from '../model/workflow-safe/limits.js';
import type { Metrics } from '../model/metrics.js';
import type { PauseMode } from '../model/policy/publish.js';
import type { Phase, PolicyView, ReplicaState, Rule } from '../model/workflow-safe/policy.js';
import type { RowRange } from '../model/workflow-safe/slices.js';
import type { Waiting } from '../model/workflow-safe/waiting.js';

/**
 * What workflows and activities say to each other, and all that workflows see of activities. Small on purpose: these
 * values are in history, so they are summaries (absolute totals, never increments); the journal is the truth.
 */
export interface Activities {
  /** Takes the raw input of `rolloutBatch`. */
  planBatch: (input: unknown) => Promise<BatchPlan>;
  /**
   * Takes the raw input of `rollout`, of a batch's child or by hand, and what was changed of its limits. Opens the
   * journal and, where the rollout can be played here, plays on as `playTurns` does.
   */
  openRollout: (input: unknown, limits?: LimitsChange) => Promise<RolloutPlan>;
  /** Turn after turn until the turn slice is used up or the rollout ends; an agent plays the whole rollout. */
  playTurns: (at: TurnRef) => Promise<TurnProgress>;
  generateTurn: (at: TurnRef) => Promise<TurnProgress>;
  stepEnvironment: (at: TurnRef) => Promise<TurnProgress>;
  /** For a rollout that its turns did not end; closes the batch of one that was started by hand. */
  finishRollout: (input: FinishRollout) => Promise<FinishedRollout>;
  closeBatch: (input: CloseBatch) => Promise<BatchResult>;
  /** A slice closes its own rows. */
  closeSlice: (input: CloseSlice) => Promise<void>;
  /** How far a batch's rollouts are, as their journals say. */
  lookAtRollouts: (input: { batch_id: string }) => Promise<RolloutsSeen>;
  /** Rows of groups that have ended while others run, for whoever asks. */
  foldGroups: (input: FoldGroups) => Promise<FoldedGroups>;
  /** Takes the raw input of update `publish`. Refuses before anything is touched; then the record has the new target. */
  settlePublish: (input: { service: string; publish: unknown }) => Promise<PublishPlan>;
  /** One replica through all phases. Fails once it is `unknown` or `away`, and not paused. */
  updateReplica: (input: UpdateReplica) => Promise<UpdatedReplica>;
  /** `version` becomes the target where enough replicas have it. */
  concludePublish: (input: { service: string } & Rule) => Promise<PolicyView>;
  /** The record, of the replicas that temporal.yaml has now. */
  surveyReplicas: (input: { service: string }) => Promise<PolicySurvey>;
}

export interface PolicySurvey {
  heartbeat_timeout_ms: number;
  /** null: nothing has ever been published. */
  view: PolicyView | null;
}

export interface PublishPlan extends Rule {
  version: number;
  mode: PauseMode;
  drain_limit: string;
  /** What holds less than one would expect, in words. */
  notes: string[];
  view: PolicyView;
}

/** Input of workflow `policy`. */
export interface PolicyInput {
  service: string;
  /** Of the run before this one. */
  updates?: PublishSummary[];
}

/** The result of update `publish`. */
export interface PublishResult {
  version: number;
  replicas: Record<string, { state: ReplicaState; fault?: string }>;
  /** The longest pause of a replica. */
  paused_s: number;
  total_s: number;
  notes?: string[];
}

/** One of the last updates, as `status` has it. */
export interface PublishSummary {
  version: number | null;
  /** Milliseconds since 1970. */
  at: number;
  paused_s: number;
  total_s: number;
  /** null: it succeeded. */
  fault: string | null;
}

/** Query `status` of workflow `policy`. */
export interface PolicyStatus {
  service: string;
  /** null: nothing has ever been published. */
  record: PolicyView | null;
  /** Where a replica is that takes long. */
  phases: Record<string, Phase>;
  /** The last ten, oldest first. */
  updates: PublishSummary[];
}

export interface UpdateReplica {
  service: string;
  replica: string;
  /** null: the record's. */
  version: number | null;
  mode: PauseMode;
  /** Of mode `wait`. */
  drain_limit?: string;
}

export interface UpdatedReplica {
  /** Seconds from the order to pause to the end of the resume. */
  paused_s: number;
  load_s: number;
  view: PolicyView;
}

export interface BatchPlan {
  batch_id: string;
  /** Rows of the input, after `limit`. */
  samples: number;
  num_repeats: number;
  /** One slice: the batch runs its rollouts itself. More: a child workflow each. */
  slices: RowRange[];
  /** How often each slice reports its counts before it ends. */
  tallies: number;
  max_in_flight: number;
  /** Of the request. */
  limits: Limits;
  /** Stops the rest of a group that has `k` valid rollouts, and of all after the deadline; null: all are played. */
  min_k: { k: number; deadline_ms: number | null } | null;
  /** Replaces failed rollouts by new repeats; null: they stay failed. */
  refill: { max_replacements: number } | null;
  /** What the replicas showed of their logprobs when the batch was planned; null: none are asked for. */
  logprobs_mode?: LogprobsMode | null;
  /** Fewer valid rollouts: the batch ends as failed; absent: none are needed. */
  min_valid?: number;
  /** Was the batch there before? Its journals are continued. */
  continued: boolean;
  /** The batch looks at its rollouts while they run; absent: it knows only of those that have ended. */
  looks?: true;
}

/** What a look at the journals of a batch shows; those that have ended included. */
export interface RolloutsSeen {
  turns: number;
  tokens: number;
  /** What most of those that wait are waiting for; null: none waits. */
  waiting: Waiting | null;
  /** How long the look took. */
  took_ms: number;
}

/** What a rollout is listed and shown by. */
export interface RolloutFacts {
  task_name: string;
  policy_version: string | null;
  /** Plays the whole rollout; absent: the policy and the environment take turns. */
  agent?: AgentFacts;
}

export interface RolloutPlan extends RolloutRef, RolloutFacts {
  /** In turn slices, an activity each (an agent: one for the whole rollout), or by turns, two activities each. */
  plays: 'in_slices' | 'by_turns';
  heartbeat_timeout_ms: number;
  queues: Record<'playTurns' | 'generateTurn' | 'stepEnvironment', string>;
  /** Started by hand: a batch of its own, which `finishRollout` closes. */
  is_batch: boolean;
  /** In force: of the request, and what the journal says was changed since. */
  limits: Limits;
  progress: TurnProgress;
}

export interface AgentFacts {
  /** Its server's name. */
  name: string;
  task_index: number;
  rollout_index: number;
  /** `_ng_attempt_index` of its last run, or of the first one before that. */
  attempt: number;
}

export interface TurnRef extends RolloutRef {
  /** The turn that is played next: for readers of the history; the journal decides. */
  turn: number;
  /** Limits that were changed while the rollout runs: from this activity on they are in force. */
  limits?: TurnLimits;
}

export interface TurnProgress {
  /** Whole turns so far, which is also the index of the next. */
  turn: number;
  total_reward: number;
  total_tokens: number;
  /** What the turn in progress, or the whole rollout, waits for. */
  phase: 'generate' | 'step' | 'run';
  /** The journal has this end. */
  ended: StopReason | null;
  /** `_ng_attempt_index` of an agent's last run. */
  attempt?: number;
  /** Truncated, and the request drops such rollouts: it gives no row. */
  dropped?: true;
  /** The end of what the policy or the environment said last, at most 120 characters. */
  preview: string;
}

export interface FailureFacts {
  type: string;
  message: string;
}

export interface FinishRollout {
  /** The rollout's place, or, where starting it failed, the workflow's raw input. */
  rollout: unknown;
  /** null: the rollout ended by itself. A valid end in the journal wins over any reason. */
  stop_reason: 'timeout' | 'stopped' | 'cancelled' | 'failed' | null;
  failure: FailureFacts | null;
}

export interface FinishedRollout {
  result: RolloutResult;
  /** Of an end that is not valid, as the journal has it. */
  failure: FailureFacts | null;
  /** null: it never started. */
  facts: RolloutFacts | null;
  /** Of a rollout that was started by hand and planned: the result of its batch of one. */
  batch: BatchResult | null;
}

/** The result of workflow `rollout`. */
export interface RolloutResult {
  rollout_id: string;
  stop_reason: StopReason;
  total_reward: number;
  turn_count: number;
  total_tokens: number;
  /** `_ng_attempt_index` of an agent's last run. */
  attempt?: number;
  /** Truncated, and the request drops such rollouts: it gives no row. */
  dropped?: true;
}

export interface CloseBatch {
  batch_id: string;
  /** Rollouts that never ended are closed as stopped, not as cancelled. */
  stopped: boolean;
}

export interface CloseSlice extends CloseBatch, RowRange {}

export interface FoldGroups extends CloseBatch {
  /** The groups are those from this place on, in the order in which groups end. */
  from: number;
  rows: number[];
}

export interface FoldedGroups {
  file: string;
}

/** The result of workflow `rolloutBatch`, and the content of metrics.json. */
export interface BatchResult {
  schema_version: 1;
  batch_id: string;
  counts: Counts;
  metrics: Metrics;
  files: { rollouts: string; failures: string; groups: string; metrics: string };
  metadata: Record<string, unknown>;
}

/** The last five add up to the first. */
export interface Counts {
  requested: number;
  completed: number;
  failed: number;
  timed_out: number;
  stopped: number;
  cancelled: number;
}

export type { Waiting } from '../model/workflow-safe/waiting.js';

/** What a batch or a slice knows of its rollouts from their results. */
export interface Tally {
  done: number;
  running: number;
  /** Ended with a row for the trainer. */
  valid: number;
  /** Turns, tokens and rewards of rollouts that returned a result; `progress` of a batch counts turns and tokens of others, too. */
  turns: number;
  tokens: number;
  reward_sum: number;
  /** Rollouts that were started in place of failed ones; absent: none. */
  replacements?: number;
}

/** Query `progress` of workflow `rolloutBatch`. */
export interface BatchProgress extends Tally {
  phase: 'planning' | 'running' | 'closing' | 'done';
  /** Replacements included. */
  requested: number;
  /** Done, and not valid. */
  failed: number;
  waiting: Waiting | null;
  /** Since the workflow's start, as of its last event. */
  elapsed_s: number;
  turns_per_s: number;
  tokens_per_s: number;
}

/** Query `progress` of workflow `rollout`. */
export interface RolloutProgress extends TurnProgress {
  state: 'starting' | 'playing' | 'finishing' | 'done';
  waiting: Waiting | null;
}

/** Input of workflow `rolloutSlice`, which only a batch starts. */
export interface SliceInput extends RowRange {
  batch_id: string;
  num_repeats: number;
  max_in_flight: number;
  tallies: number;
  /** Valid rollouts that make a group complete; null: nobody asks. */
  k: number | null;
  /** Under `refill`: its share, to begin with. */
  max_replacements?: number;
  /** What has been changed before the slice started. */
  limits?: LimitsChange;
}
