import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { RolloutRef } from '../model/batch-request.js';
import type { StopReason } from '../model/workflow-safe/stop-reasons.js';
import type { LimitsChange, TurnLimits, Limits } from '../model/workflow-safe/limits.js';
import type { BatchResult, Counts } from '../model/results/result.js';
import type { TaskPriority } from '../model/workflow-safe/priority.js';
import type { GroupFiles } from '../model/workflow-safe/groups.js';
import type { RowRange } from '../model/workflow-safe/slices.js';
import type { Waiting, Failures } from '../model/results/answers.js';

/**
 * What workflows and activities exchange, and all that workflows see of activities. These values are in history, so
 * they are small summaries: absolute totals, never increments. The journal is the truth.
 */
export interface Activities {
  /** Takes the raw input of `rolloutBatch`. `restart`: what an earlier run has played is removed, and played again. */
  planBatch: (input: unknown, options?: BatchOptions) => Promise<BatchPlan>;
  /**
   * Takes the raw input of `inputs`: `{"token"}` of the file `.samples/<token>.token` below `inputs_dir`, whose content it
   * is; null: there is none yet.
   */
  findInputs: (input: unknown) => Promise<Inputs>;
  /**
   * Takes the raw input of `rollout`, from a batch or by hand, changed limits, and how much of `rollout_timeout` was over
   * when it was asked for. Opens the journal and, if the rollout can be played here, plays on as `playTurns` does.
   */
  openRollout: (
    input: unknown,
    ...more: [limits?: LimitsChange, spent_ms?: number]
  ) => Promise<RolloutPlan>;
  /** Plays turn after turn until the turn slice is used up or the rollout ends. An agent plays the whole rollout. */
  playTurns: (at: TurnRef) => Promise<TurnProgress>;
  generateTurn: (at: TurnRef) => Promise<TurnProgress>;
  stepEnvironment: (at: TurnRef) => Promise<TurnProgress>;
  /** Ends a rollout that its turns did not end. Closes the batch of one of a rollout started by hand. */
  finishRollout: (input: FinishRollout) => Promise<FinishedRollout>;
  /** Puts changed limits into the store, for attempts that play. Of one rollout: returns what is in force; else null. */
  setLimits: (order: SetLimits) => Promise<Limits | null>;
  closeBatch: (input: CloseBatch) => Promise<BatchResult>;
  closeSlice: (input: CloseBatch & RowRange) => Promise<void>;
  /** How far a batch's rollouts are, from their journals. */
  lookAtRollouts: (input: LookAtRollouts) => Promise<RolloutsSeen>;
  /** Writes the rows of groups that have ended while others run, on request. */
  foldGroups: (input: FoldGroups) => Promise<GroupFiles>;
}

/** The second input of `rolloutBatch`: of this start, not of the batch. */
export interface BatchOptions {
  restart: true;
}

export interface Inputs {
  inputs_dir: string;
  /** Process and host. */
  worker: string;
  /** How many characters of samples a batch may have here. */
  most_characters: number;
  /** It reads the token. */
  sees: boolean;
}

/** What the plans of batches and streams have alike. */
export interface PlayedPlan {
  /** The priority of its rollouts' tasks. */
  priority?: TaskPriority;
  /** The heartbeat timeout of activities that play, before there is a rollout's plan; absent: 10 s. */
  heartbeat_timeout_ms?: number;
  limits: Limits;
  /** It looks at its rollouts while they run, or while a trainer waits for them; absent: it counts those that have ended. */
  looks?: true;
  /** The memo of its workflow: whose it is, and what it plays. */
  memo?: Record<string, string | string[]>;
  /** The address of its page; absent: temporal.yaml names no viewer. */
  page?: string;
}

export interface BatchPlan extends PlayedPlan {
  batch_id: string;
  /** Rows of the input, after `limit`. */
  samples: number;
  num_repeats: number;
  /** One slice: the batch runs its rollouts itself. Several: a child workflow for each. */
  slices: RowRange[];
  /** How often each slice reports its counts before it ends. */
  tallies: number;
  max_in_flight: number;
  /** A group with `k` valid rollouts stops its other members, and the deadline stops all; null: all are played. */
  min_k: { k: number; deadline_ms: number | null } | null;
  /** Failed rollouts are replaced by new repeats; null: they stay failed. */
  refill: { max_replacements: number } | null;
  /** The replicas' mode of logprobs at planning; null: none are requested. */
  logprobs_mode?: LogprobsMode | null;
  /** With fewer valid rollouts the batch ends as failed; absent: no minimum. */
  min_valid?: number;
  /** Whether the batch existed before, so that its journals are continued. */
  continued: boolean;
  /** Slices play their rollouts themselves, also a single one; absent: each rollout has a workflow. */
  plays_rollouts?: true;
}

export interface LookAtRollouts {
  batch_id: string;
  /** Row and repeat of each that runs, as the batch knows it; absent: it does not, because it has slices. */
  running?: [row: number, repeat: number][];
  /** They are a stream's, in workflows of groups: only these are looked at, since all journals would be too many. */
  in_groups?: true;
  /** It is one rollout that was started by hand, whose workflow has the batch's id. */
  by_hand?: true;
}

/** What a look at the journals of a batch shows, including rollouts that have ended. */
export interface RolloutsSeen {
  turns: number;
  tokens: number;
  /** Absent: it is not known. */
  ended?: Ended;
  /** What most of the waiting rollouts wait for; null: none waits. */
  waiting: Waiting | null;
  took_ms: number;
}

/** What the namespace cannot list. */
interface Unlisted {
  /** Search attributes that it has no room for; absent: none. */
  unlisted?: readonly string[];
}

/** Rollouts whose journals have a valid end, also of an earlier run of the batch. */
export type Ended = Pick<Tally, 'valid' | 'reward_sum'>;

/** What lists and views show of a rollout. */
export interface RolloutFacts {
  task_name: string;
  policy_version: string | null;
  /** The agent that plays the whole rollout; absent: policy and environment take turns. */
  agent?: AgentFacts;
  /** The address of its page; absent: temporal.yaml names no viewer. */
  page?: string;
}

export interface RolloutPlan extends RolloutRef, RolloutFacts, Unlisted {
  /** In turn slices, one activity each (an agent: one for the whole rollout), or by turns, two activities each. */
  plays: 'in_slices' | 'by_turns';
  heartbeat_timeout_ms: number;
  queues: Record<TurnActivity, string>;
  /** Started by hand: a batch of its own, which `finishRollout` closes. */
  is_batch: boolean;
  /** The limits in force: from the request, with the changes that the journal has. */
  limits: Limits;
  progress: TurnProgress;
}

export interface AgentFacts {
  /** Its server's name. */
  name: string;
  task_index: number;
  rollout_index: number;
  /** `_ng_attempt_index` of its last run, or of its first one before that run. */
  attempt: number;
}

export type TurnActivity = 'playTurns' | 'generateTurn' | 'stepEnvironment';

interface TurnRef extends RolloutRef {
  /** The next turn, for readers of the history; the journal decides. */
  turn: number;
  /** Limits that were changed while the rollout runs. They apply from this activity on. */
  limits?: TurnLimits;
}

export interface TurnProgress {
  /** Whole turns so far, which is also the index of the next. */
  turn: number;
  total_reward: number;
  total_tokens: number;
  /** The next call of the turn in progress, or of the whole rollout. */
  phase: 'generate' | 'step' | 'run';
  /** The journal has this end. */
  ended: StopReason | null;
  /** `_ng_attempt_index` of an agent's last run. */
  attempt?: number | undefined;
  /** Truncated, and the request drops such rollouts: it becomes no row. */
  dropped?: true | undefined;
  /** No token of its row trains. */
  untrained?: true | undefined;
  /** The end of the last message of the policy or the environment, at most 120 characters. */
  preview: string;
}

export interface FailureFacts {
  type: string;
  message: string;
}

export interface FinishRollout {
  /** The rollout's place, or, if it could not be started, the workflow's raw input. */
  rollout: unknown;
  /** null: the rollout ended by itself. A valid end in the journal takes precedence over any reason. */
  stop_reason: 'timeout' | 'stopped' | 'cancelled' | 'failed' | null;
  failure: FailureFacts | null;
}

/** For all rollouts of a batch or a stream, or for one: the raw input of its workflow. */
export type SetLimits = { limits: LimitsChange } & ({ batch_id: string } | { rollout: unknown });

export interface FinishedRollout extends Unlisted {
  result: RolloutResult;
  /** For an end that is not valid, as the journal has it. */
  failure: FailureFacts | null;
  /** null: it never started. */
  facts: RolloutFacts | null;
  /** For a planned rollout that was started by hand: the result of its batch of one. */
  batch: BatchResult | null;
}

/** The result of workflow `rollout`. */
export interface RolloutResult extends Pick<
  TurnProgress,
  'total_reward' | 'total_tokens' | 'attempt' | 'dropped' | 'untrained'
> {
  rollout_id: string;
  stop_reason: StopReason;
  turn_count: number;
}

export interface CloseBatch {
  batch_id: string;
  /** Rollouts that never ended are closed as stopped instead of cancelled. */
  stopped: boolean;
}

interface FoldGroups extends CloseBatch {
  /** The place of the first group, in the order in which groups end. */
  from: number;
  rows: number[];
}

export type { BatchResult, Counts };

export type { BatchProgress, Waiting } from '../model/results/answers.js';

/** Counts of a batch's or a slice's rollouts, from their results. */
export interface Tally {
  done: number;
  running: number;
  /** Ended with a row for the trainer. */
  valid: number;
  /**
   * Turns, tokens and rewards of rollouts that returned a result. A batch's `progress` also counts turns and tokens of
   * others.
   */
  turns: number;
  tokens: number;
  reward_sum: number;
  /** Rollouts that replace failed ones; absent: none. */
  replacements?: number;
  /** The failures of rollouts that failed or passed their deadline in this run; absent or empty: none. */
  failures?: Failures;
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
  /** Valid rollouts that make a group complete; null: no such limit. */
  k: number | null;
  /** Under `refill`: its initial share. */
  max_replacements?: number;
  /** Changes from before the slice started. */
  limits?: LimitsChange;
  /** From the request, for rollouts that nobody has opened yet. */
  rollout_timeout?: string;
  /** As in the batch's plan, and so is the next. */
  heartbeat_timeout_ms?: number | undefined;
  plays_rollouts?: true | undefined;
}
