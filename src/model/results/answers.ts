import { z } from 'zod';
import { count, countOrNull, maybe, maybeText, number, text, textOrNull } from '../field-kinds.js';
import type { Limits } from '../workflow-safe/limits.js';
import {
  PHASES,
  REPLICA_NEEDS,
  REPLICA_STATES,
  SLEEP_LEVELS,
} from '../workflow-safe/policy-states.js';
import { Holder } from '../policy/orders.js';

/** What workflows answer to queries and updates: `docs/schemas/answers.json`, of which Python's types are made. */

const texts = (what: string) => z.array(z.string()).exactOptional().describe(what);
const by_url = 'by URL: its state, and what it lacks';
const time = (what: string) => number(`${what}, in milliseconds since 1970`);

const WaitingFor = z.strictObject({
  service: text('a URL, or who has to act'),
  message: text('the last answer, or why there is none'),
  holds: maybe(z.literal(true), 'time limits do not run meanwhile'),
  call: maybeText('who is asked, by name'),
  tries: count('how often').exactOptional(),
  since: maybeText('since when, as text'),
  rollouts: count('of a batch: how many wait for it').exactOptional(),
});
export type Waiting = z.infer<typeof WaitingFor>;

export const FailuresByType = z.record(
  z.string(),
  z.strictObject({
    rollouts: count('how many'),
    message: text('of the first one'),
    example: maybeText('that rollout, for `temporal-rollout show`'),
  }),
);
export type Failures = z.infer<typeof FailuresByType>;

/** From the request; absent until it is planned. */
const claim = {
  priority: count('of the request').exactOptional(),
  share: z.number().exactOptional().describe('of the request'),
};

/** Query `progress` of workflow `rolloutBatch`. */
export const BatchProgress = z.strictObject({
  phase: z.enum(['planning', 'running', 'closing', 'done']).describe('what it does'),
  requested: count('rollouts, replacements included'),
  done: count('rollouts that have ended'),
  running: count('rollouts that run'),
  valid: count('rollouts that have ended with a row to train on'),
  failed: count('rollouts that have ended without one'),
  turns: count('of rollouts that have ended, and of those that run as far as the batch has looked'),
  tokens: count('likewise'),
  reward_sum: number('of valid rollouts'),
  waiting: WaitingFor.nullable().describe(
    'the service that rollouts wait for, with its message; null: none',
  ),
  elapsed_s: number('seconds since its start, up to its last event'),
  turns_per_s: number('over that time'),
  tokens_per_s: number('likewise'),
  ...claim,
  continued: maybe(
    z.literal(true),
    'it was started again: a part of `done` is of an earlier run, whose time does not count',
  ),
  replacements: count('rollouts that replace failed ones (`refill`)').exactOptional(),
  failures: FailuresByType.exactOptional().describe(
    'by type: how many, the first message, and a rollout that has it',
  ),
});
export type BatchProgress = z.infer<typeof BatchProgress>;

/** Query `progress` of workflow `rolloutStream`. */
export const StreamProgress = z.strictObject({
  phase: z
    .enum(['planning', 'running', 'stopping', 'done'])
    .describe('what it does; `done`: it was stopped'),
  step: count('the next one; `next_step` still returns those from `kept_from` on'),
  kept_from: count('earlier steps are forgotten'),
  version: countOrNull('of the previous step; null: unknown'),
  served: countOrNull('the lowest version that is served; null: unknown'),
  in_flight: count('groups that run'),
  banked: count('groups that wait for a step'),
  admitted: count('all groups so far'),
  out: z
    .strictObject({
      filtered: count('they teach nothing'),
      dropped: count('too old'),
      failed: count('no rows'),
      untrained: count('no token of them trains; absent: none').exactOptional(),
      delivered: count('in a step'),
    })
    .describe('groups that are neither, by how they left'),
  failures: FailuresByType.exactOptional().describe(
    'of rollouts in groups that have ended since the last step, by type',
  ),
  lag: countOrNull(
    'how many versions the oldest open group would be behind if it were delivered now; null: unknown',
  ),
  max_in_flight: count('rollouts'),
  ...claim,
  why: text('what the next step waits for, in words'),
  waiting: WaitingFor.nullable().describe('what all of it waits for; null: nothing outside'),
  steps_dir: maybeText("folder of the steps on the worker's host, each with its `metrics.json`"),
});
export type StreamProgress = z.infer<typeof StreamProgress>;

const LimitsInForce = z.strictObject({
  max_rollout_turns: count('turns'),
  max_new_tokens: count('tokens of one turn'),
  max_seq_len: count('tokens of the whole log'),
  rollout_timeout: text("such as `1h`, from the rollout's start"),
}) satisfies z.ZodType<Limits>;

const state = z
  .enum(REPLICA_STATES)
  .describe(
    "`current`: it serves its version; `updating`; `asleep`: its memory is somebody else's for a while; `unknown`: it serves nothing until it has weights again; `away`: it does not answer",
  );
const needs = maybe(
  z.enum(REPLICA_NEEDS),
  '`load`: it is half loaded, and stays paused until it gets whole weights; `restart`: only a new process helps; absent: nothing',
);
const level = z
  .literal(SLEEP_LEVELS)
  .describe('1: the weights wait in the memory of the host; 2: they are dropped');

/** The result of update `publish`. */
export const PublishResult = z.strictObject({
  version: count('that was published'),
  replicas: z
    .record(
      z.string(),
      z.strictObject({
        state,
        needs,
        fault: maybeText('why it lacks the weights'),
      }),
    )
    .describe(by_url),
  paused_s: number('the longest pause of a replica, in seconds'),
  total_s: number('the whole update, in seconds'),
  notes: texts('guarantees that are weaker than expected, in words'),
  may_delete: texts('paths of earlier adapters that no engine needs any more'),
});
export type PublishResult = z.infer<typeof PublishResult>;

/** The result of updates `abandon`, `attach`, `sleep`, `wake` and `release`. */
export const PolicyState = z.strictObject({
  version: countOrNull('that enough replicas have; null: none'),
  replicas: PublishResult.shape.replicas,
});
export type PolicyState = z.infer<typeof PolicyState>;

/** The answer of update `sleep`. */
export const SleepAnswer = PolicyState.extend({
  level,
  until: time('they are woken then'),
});
export type SleepAnswer = z.infer<typeof SleepAnswer>;

const ReplicaInView = z.strictObject({
  state,
  version: countOrNull('of its weights; null: unknown'),
  epoch: count('changes whenever its weights may'),
  paused_until: z
    .number()
    .nullable()
    .describe('the end of its pause, at most, in milliseconds since 1970; null: it is not paused'),
  fault: textOrNull('its last one; null: none'),
  needs,
  owner: maybeText('who has listed it; absent: temporal.yaml'),
  instance: maybeText('names its process; absent: nobody says it'),
  examined: z
    .literal(false)
    .exactOptional()
    .describe('it has joined, and nobody has compared it with the others yet'),
  draining_until: time('it gets no new request, and leaves then').exactOptional(),
  away_since: time('since when it does not answer').exactOptional(),
  slept: level
    .exactOptional()
    .describe('the level at which it sleeps, or has yet to be woken; absent: it is awake'),
});
export type ReplicaView = z.infer<typeof ReplicaInView>;

const RecordInView = z.strictObject({
  epoch: count('counts its changes'),
  version: countOrNull('that enough replicas have; null: none yet'),
  target: countOrNull('the one that is being brought, or the last one; null: none yet'),
  weights: z
    .record(
      z.string(),
      z.strictObject({
        kind: text('`checkpoint`: files; `lora`: an adapter; `transfer`: only a trainer has them'),
        path: maybeText('of files'),
        base: count('of an adapter: the version of the weights that it is for').exactOptional(),
      }),
    )
    .describe('of `version` and `target`, by version'),
  replicas: z.record(z.string(), ReplicaInView).describe(by_url),
  ticket: z
    .strictObject({
      nonce: text('of its ticket'),
      version: count('that the weights get'),
      holder: Holder.describe('who sends them'),
      paused_until: time('the end of the pause, at most'),
      stall_ms: count('how long its holder may be silent'),
      engines: z.array(z.string()).describe('their URLs'),
    })
    .nullable()
    .exactOptional()
    .describe('of the transfer that is open; absent or null: none is'),
  sleep: z
    .strictObject({
      nonce: text('of the update'),
      holder: Holder.describe('who needs their memory'),
      level,
      until: time('they are woken then'),
    })
    .nullable()
    .exactOptional()
    .describe('who has put the engines to sleep; absent or null: nobody'),
  may_delete: texts('paths of adapters that no engine needs any more'),
  hold: z
    .strictObject({
      name: text('of the training'),
      incarnation: text('of its process'),
      since: time('when this name began'),
      at: time('its last update'),
      took_from: maybeText("whose hold it has ended by `take_over`; absent: nobody's"),
    })
    .exactOptional()
    .describe('who brings weights; absent: nobody has said who it is, or it was released'),
  courses: z
    .array(
      z.strictObject({
        name: textOrNull('of the training; null: it did not say'),
        first: count('its first version'),
        found: countOrNull('what was served when it began; null: nothing that was published'),
      }),
    )
    .exactOptional()
    .describe('who has brought which versions, oldest first; absent: nobody knows'),
});
/** The record as workflows and `status` see it. */
export type PolicyView = z.infer<typeof RecordInView>;

/** One of the last updates, as in `status`. */
const PublishSummary = z.strictObject({
  version: countOrNull('that was brought'),
  at: time('its end'),
  paused_s: number('the longest pause of a replica, in seconds'),
  total_s: number('the whole update, in seconds'),
  fault: textOrNull('null: it succeeded'),
});
export type PublishSummary = z.infer<typeof PublishSummary>;

/** Query `status` of workflow `policy`. */
export const PolicyStatus = z.strictObject({
  service: text('its name'),
  record: RecordInView.nullable().describe(
    'versions and replicas; null: nothing was ever published',
  ),
  phases: z
    .record(z.string(), z.enum(PHASES))
    .describe('of replicas that are slow, by URL: `pause`, `load`, …'),
  updates: z.array(PublishSummary).describe('the last ten, oldest first'),
  transfer: z
    .strictObject({
      done: z.number().nullable().describe('tensors or bytes; null: nothing'),
      silent_s: number('since it last said more, in seconds'),
      is_stale: z.boolean().describe('whether that is longer than `stall_limit`'),
    })
    .exactOptional()
    .describe('what the holder of an open transfer has said; absent: none is open'),
  heard_at: time(
    'when the holder was heard last; absent: nobody holds the service',
  ).exactOptional(),
});
export type PolicyStatus = z.infer<typeof PolicyStatus>;

/** An engine of the answer of update `begin`. */
export const HeldEngine = z.strictObject({
  url: text('its base URL'),
  control_url: text('where its weights are changed'),
  instance: textOrNull('of its process; null: nobody says it'),
  world_size: count('how many ranks it has'),
  rank_offset: count('its first rank in the collective of its group; the trainer is rank 0'),
  group: count('engines of one group fail together'),
  backend: textOrNull('of its transfers; null: the engine does not say it'),
});
export type HeldEngine = z.infer<typeof HeldEngine>;

/** By the name of each in the schema, whose description says what it is. */
export const Answers = z.strictObject({
  batch_progress: BatchProgress.describe("the state of a batch's rollouts"),
  stream_progress: StreamProgress.describe('what a stream does'),
  limits: LimitsInForce.describe('the limits in force for rollouts of a batch or a stream'),
  publish_result: PublishResult.describe('the result of an update of weights'),
  policy_state: PolicyState.describe('what a service serves after a change'),
  policy_sleep: SleepAnswer.describe('engines that sleep'),
  policy_status: PolicyStatus.describe("the state of a service's weights"),
  held_engine: HeldEngine.describe('an engine that a transfer holds'),
});
