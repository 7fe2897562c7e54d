import type { ExactEnvironment } from '../environments/environment.js';
import type { Gateway } from '../gateway/agent-session.js';
import type { Replicas, Sharer } from '../generation/generation-service.js';
import type { WeightControl } from '../generation/weight-control.js';
import type { PhaseNews } from '../model/workflow-safe/policy.js';
import type { Waiting } from '../model/results/answers.js';
import type { Allowance } from '../platform/waits/allowance.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { Attempt, RunAttempt } from './attempt.js';
import type { FailureFacts } from './contract.js';
import type { AllActivities } from './contract/stream.js';
import type { LimitsWatch } from './limits/limit-facts.js';
import type { PolicyRecords } from './policy/policy-records.js';

export interface KnownNames {
  services: readonly string[];
  environments: readonly string[];
  /** Kinds of environment that temporal.yaml names without further settings. */
  bare_kinds: readonly string[];
}

/** What all activities of a process are given: only interfaces, wired in `workers/`. */
export interface Dependencies {
  store: TrajectoryStore;
  /** By it, environments tell deployments apart. */
  storeId: TrajectoryStore['storeId'];
  /** undefined if temporal.yaml has no such service. */
  service: (name: string) => GenerationPool | undefined;
  /** How a service's weights change; undefined if temporal.yaml has no such service. */
  policy: (name: string) => PolicyService | undefined;
  /** undefined if temporal.yaml has no such environment. */
  environment: (taskName: string) => DeployedEnvironment | undefined;
  /** Answers programs that this process runs; null: it runs none. */
  gateway: Gateway | null;
  /** The allowance for large answers of environments, until they are journalled. */
  answers: Allowance;
  folds: Allowance;
  limits: LimitsWatch;
  known: KnownNames;
  deployment: Deployment;
  /** Search attributes that the namespace has no room for. */
  unlisted: () => readonly string[];
  /** Open workflows whose id begins with `<batch_id>/`: children of an earlier run that are still ending. */
  countOpenRollouts: (batchId: string) => Promise<number>;
  /**
   * What the failed attempts of a workflow's activities wait for, also where no journal can say it; or that its own task
   * fails; null: nothing.
   */
  waitOf: (workflowId: string) => Promise<Waiting | null>;
  /** That tasks wait in a queue of activities which nobody polls; null: none do. */
  waitOfQueue: (name: string) => Promise<Waiting | null>;
  /** Whether Temporal says of a workflow that it runs no more, or has none. */
  isOver: (workflowId: string) => Promise<boolean>;
  /** How a workflow ended by itself; null: it did not, or nobody knows it (any more). */
  endOf: (workflowId: string) => Promise<WorkflowEnd | null>;
}

export interface WorkerDependencies extends Dependencies {
  attempt: RunAttempt;
}

export interface Running extends Dependencies {
  attempt: Attempt;
}

export type Body<Name extends keyof AllActivities> = (
  input: Parameters<AllActivities[Name]>,
  running: Running,
) => ReturnType<AllActivities[Name]>;

export type WorkflowEnd = 'completed' | FailureFacts;

/**
 * `engine`: the service's engines take pictures together with ids. `rendered_ids`: only the ids are sent, to a gateway
 * that adds the pictures. `none`: refused.
 */
type Images = 'engine' | 'rendered_ids' | 'none';

export interface GenerationPool extends Replicas {
  /** Served name to use if the request names none; null: the service's first. */
  model: string | null;
  /** The variable that holds the key for its engines; null: they get none. */
  api_key_env: string | null;
  /** Texts to remove from content, for services whose detokenizer renders them. */
  special_tokens: readonly string[];
  /** Roles that its chat template does not have, and what they become; absent: none. */
  role_map?: Readonly<Record<string, string>>;
  /** Whether prompts may contain images, and who gives them to the engine (temporal.yaml: `images`). */
  images: Images;
}

export interface PolicyService {
  records: PolicyRecords;
  /** The replicas that temporal.yaml names: the first entries of a record. */
  urls: readonly string[];
  /** One for each of these, and for each that has joined by the record as it was read last. */
  controls: () => readonly WeightControl[];
  /** Why no engine may join at this URL; null: temporal.yaml allows it, by the address that its name leads to now. */
  refusalOf: (url: string) => Promise<string | null>;
  /** Served name of temporal.yaml; null: the engines' first. */
  model: string | null;
  /** How long a replica that has joined may be away; null: for ever. */
  forget_after_ms: number | null;
  /** Shows the phase of a slow replica; best effort. */
  sayPhase: (news: PhaseNews) => Promise<void>;
  /** Makes the workflow read the record again, and starts it if it does not run. */
  wake: () => Promise<void>;
}

export interface DeployedEnvironment {
  environment: ExactEnvironment;
  task_queue: string;
  /**
   * Whether rollouts are played where they are opened: unless their environment has its own queue, or is an agent's with
   * a limit, or this worker has not its role.
   */
  plays_on: boolean;
  /** Waits for a place at it, and steps there. */
  inPlace: <T>(
    who: { sharer: Sharer; session_id: string; signal: AbortSignal },
    step: () => Promise<T>,
  ) => Promise<T>;
  /** Roles of its observations; null: any. */
  roles: readonly string[] | null;
  /** Whether this worker can check its health. It cannot check a grader or a sandbox on another machine. */
  is_asked: boolean;
}

export interface Deployment {
  inputs_dir: string;
  /** Limit for a batch's samples, which planning holds as text. */
  sample_bytes: number;
  turn_slice_ms: number;
  /** The heartbeat timeout of activities that play. */
  heartbeat_timeout_ms: number;
  /** Nobody has set it, and deaths are seen without it: it may be longer where many rollouts play at once. */
  heartbeat_grows: boolean;
  generation_queue: string;
  /** Where people look at rollouts; null: nowhere. */
  viewer_url: string | null;
}
