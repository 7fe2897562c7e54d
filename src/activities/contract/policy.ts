import type { PauseMode } from '../../model/policy/orders.js';
import type { HeldEngine, PublishSummary, PolicyView } from '../../model/results/answers.js';
import type { Heard } from '../../model/workflow-safe/hold.js';
import type { ORDERS, REPLICA_ORDERS } from '../../model/workflow-safe/policy-states.js';

export type {
  PolicyState,
  PolicyStatus,
  PublishResult,
  PublishSummary,
  SleepAnswer,
} from '../../model/results/answers.js';

/** What workflow `policy` and its activities exchange. */
export interface PolicyActivities {
  /**
   * Changes what the record wants, or refuses the order before anything is touched. Orders of a trainer that shares the
   * engines (`begin`, `finish`, `abandon`, `sleep`, `wake`) bring all engines there at once.
   */
  takeOrder: (order: PolicyOrder) => Promise<OrderTaken>;
  /** Brings one replica to what the record wants. Fails once it is `unknown` or `away`, and not paused. */
  bringReplica: (input: BringReplica) => Promise<BroughtReplica>;
}

export interface PolicyOrder {
  service: string;
  /** `survey`: the replicas that temporal.yaml has now. `conclude`: the target is the version if a quorum has it. */
  name: (typeof ORDERS | typeof REPLICA_ORDERS)[number] | 'survey' | 'conclude';
  input?: unknown;
  /** Names what the order makes; of an order of the workflow itself, what it ends. */
  nonce?: string;
  /** Why the workflow itself ends a transfer or a sleep. */
  why?: string;
  heard?: Heard;
}

export interface OrderTaken {
  view: PolicyView;
  /** Of the store whose record it is; absent: nobody said, as in older histories. */
  store_id?: string;
  /** What is to be done at once; absent: nothing, or replicas are restored by themselves. */
  brings?: Bringing;
  /** Of `begin`. */
  begun?: BeginAnswer;
  /** Of `finish`; faults by URL. */
  finished?: { version: number; paused_s: number; faults: Record<string, string> };
  /** Of `survey`: for activities that bring replicas. */
  heartbeat_ms?: number;
}

export interface Bringing {
  replicas: string[];
  /** null: the record's, without a quorum. */
  version: number | null;
  quorum: number | null;
  at_once: number;
  mode: PauseMode;
  drain_limit: string;
  /** Guarantees that are weaker than expected, in words. */
  notes: string[];
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

/** Input of workflow `policy`. */
export interface PolicyInput {
  service: string;
  /** From the previous run. */
  updates?: PublishSummary[];
  heard?: Heard;
}

export interface BringReplica extends Pick<Bringing, 'version' | 'mode'> {
  service: string;
  replica: string;
  /** For mode `wait`. */
  drain_limit?: string;
}

export interface BroughtReplica {
  /** Seconds from the order to pause to the end of the resume. */
  paused_s: number;
  view: PolicyView;
}
