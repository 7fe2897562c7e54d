import type { Environment } from '../environments/environment.js';
import type { Replicas } from '../generation/generation-service.js';
import type { WeightControl } from '../generation/weight-control.js';
import type { PhaseNews } from '../model/workflow-safe/policy.js';
import type { Allowance } from '../platform/allowance.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import type { RunAttempt } from './attempt.js';
import type { PolicyRecords } from './policy/policy-records.js';

/** What activities are closures over: interfaces only, wired in `workers/`. */
export interface Dependencies {
  store: TrajectoryStore;
  /** undefined where temporal.yaml has no such service. */
  service: (name: string) => GenerationPool | undefined;
  /** Of a service: how its weights change; undefined where temporal.yaml has no such service. */
  policy: (name: string) => PolicyService | undefined;
  /** undefined where temporal.yaml has no such environment. */
  environment: (taskName: string) => DeployedEnvironment | undefined;
  /** What the large answers of environments share, until they are journalled. */
  answers: Allowance;
  /** What the folds of turns in progress share. */
  folds: Allowance;
  known: { services: string[]; environments: string[] };
  attempt: RunAttempt;
  deployment: Deployment;
  /** Open workflows whose id begins with `<batch_id>/`: an earlier run's children that are still ending. */
  countOpenRollouts: (batchId: string) => Promise<number>;
}

export interface GenerationPool extends Replicas {
  /** Served name to use where the request names none; null: the service's first. */
  model: string | null;
  /** Texts that content never keeps, of services whose detokenizer renders them. */
  special_tokens: readonly string[];
  /** May prompts hold images? Only their ids reach the engine (temporal.yaml: `images`). */
  images: boolean;
}

export interface PolicyService {
  records: PolicyRecords;
  /** One for each replica of temporal.yaml. */
  controls: readonly WeightControl[];
  /** Shows where a replica is while a phase takes long; best effort. */
  sayPhase: (news: PhaseNews) => Promise<void>;
  /** The workflow looks at the record again; it is started where it does not run. */
  wake: () => Promise<void>;
}

export interface DeployedEnvironment {
  environment: Environment;
  task_queue: string;
  /** Are rollouts played on where they are opened? Those of agents, too, unless their environment has a queue or a limit of its own. */
  plays_on: boolean;
  /** Of its observations; null: any. */
  roles: readonly string[] | null;
  /** Can this worker tell whether it is there? Not of a grader or a sandbox on another machine. */
  is_asked: boolean;
}

export interface Deployment {
  inputs_dir: string;
  /** Of a batch's samples, which planning holds as text. */
  sample_bytes: number;
  turn_slice_ms: number;
  heartbeat_timeout_ms: number;
  generation_queue: string;
}
