import { z } from 'zod';
import { AttemptSettings, GenerationSettings, Overlong, Semantics } from './batch-request.js';
import { Content } from './content.js';
import { FAILURE_CLASSES, FAULT_TYPES } from './faults.js';
import { Glance } from './glance.js';
import { LOGPROBS_MODES } from './logprobs-mode.js';
import { STOP_REASONS } from './workflow-safe/stop-reasons.js';

/**
 * The lines of a rollout's journal, its append-only record and the truth about it. Every line names its writer: a
 * random id per activity attempt, since Temporal's attempt numbers restart and order nothing. What the lines mean
 * together is said once, in `trajectory.ts`.
 */

const tokenIds = z.array(z.int());
const written = {
  writer: z.string(),
  /** Seconds since the epoch, from the writer's monotonic clock. */
  at: z.number(),
};

const LogMessage = z.object({
  role: z.string(),
  /** Images that the sample holds are references to it. */
  content: Content,
  token_ids: tokenIds,
  generation_logprobs: z.array(z.number()).optional(),
});

/** What a rollout needs of its batch's request, resolved: nothing has to be looked up again to go on from here. */
export const RolloutSettings = z.object({
  generation: GenerationSettings,
  /** The served name that every request of this rollout asks for. */
  model: z.string(),
  num_repeats_add_seed: z.boolean(),
  max_seq_len: z.number(),
  max_rollout_turns: z.number(),
  semantics: Semantics,
  policy_version: z.string().nullable(),
  /** How many versions one turn may span; null: any number. */
  max_version_span: z.number().nullable().default(null),
  attempts: AttemptSettings,
  overlong: Overlong.default('keep'),
});
export type RolloutSettings = z.infer<typeof RolloutSettings>;

const StartLine = z.object({
  kind: z.literal('start'),
  ...written,
  schema_version: z.literal(1),
  task_name: z.string(),
  /** An agent plays the whole rollout: there are runs instead of turns, no prompt and no model. */
  plays: z.literal('agent').exactOptional(),
  settings: RolloutSettings,
  prompt: z.array(LogMessage),
  extra_env_info: z.record(z.string(), z.unknown()),
  /** Absent where the sample has no such column: `nemo-rl-sync` treats that differently from null. */
  stop_strings: z.array(z.string()).nullable().optional(),
  /** The environment lost its session: the rollout starts over, and what was played before is dropped. */
  over: z.literal(true).exactOptional(),
});

/** `asked`: it is about to be asked for that, and it may happen from here on; `none`: it has said that it has none. */
const SessionMark = z.enum(['asked', 'none']).exactOptional();

/** The environment opened a session for the rollout, before its prompt is rendered. */
const BeginLine = z.object({
  kind: z.literal('begin'),
  ...written,
  task_name: z.string(),
  session: SessionMark,
  /** What the environment adds to the sample's prompt. */
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
  /** Its first state, in the place of the sample's `extra_env_info`. */
  metadata: z.record(z.string(), z.unknown()),
});

/** The session was ended with the rollout: who goes on from here needs another. */
const CloseLine = z.object({ kind: z.literal('close'), ...written, session: SessionMark });

/** Limits that were changed while the rollout ran (`TurnLimits` of limits.ts). */
const ChangedLimits = z.object({
  max_rollout_turns: z.int().exactOptional(),
  max_new_tokens: z.int().exactOptional(),
  max_seq_len: z.int().exactOptional(),
});

/** Takes the journal over: lines of earlier writers that follow it are a zombie's and are ignored. */
const ClaimLine = z.object({
  kind: z.literal('claim'),
  ...written,
  activity: z.string(),
  /** The activity's own attempt: above 1, an earlier one did not report. */
  attempt: z.int(),
  /** Only of `openRollout`: a rollout that ended without a valid result goes on. */
  reopen: z.boolean(),
  /** From here on they stand in the place of the settings of `start`. */
  limits: ChangedLimits.exactOptional(),
  /** Of a replacement's `openRollout`: the repeat that failed. */
  replaces: z.int().exactOptional(),
});

export const Finish = z.object({
  finish_reason: z.enum(['stop', 'length']),
  /** The stop string or stop token id; null for the end of sequence and for `length`. */
  stop_reason: z.union([z.string(), z.number()]).nullable(),
});
export type Finish = z.infer<typeof Finish>;

/** Of each token's place: some of the likeliest ids and their logprobs, the likeliest first. */
const TopLogprobs = z.array(z.array(z.tuple([z.int(), z.number()])));
export type TopLogprobs = z.infer<typeof TopLogprobs>;

/** Tokens of a generation as they streamed in. What stood at `offset` or beyond in the turn is dropped. */
const ChunkLine = z.object({
  kind: z.literal('chunk'),
  ...written,
  turn: z.int(),
  offset: z.int(),
  token_ids: tokenIds,
  logprobs: z.array(z.number()),
  /** Where they were asked for: one entry for each token. */
  top_logprobs: TopLogprobs.exactOptional(),
  text: z.string(),
  replica: z.string(),
  request_id: z.string(),
  policy_version: z.string().nullable(),
  /** Who says so; `pending`: nobody yet, and whoever goes on from here drops it. Absent: what the engine was asked, or nobody. */
  version_source: z.enum(['engine', 'record', 'none', 'pending']).exactOptional(),
  /** Of the replica that gave them, where logprobs were asked for. */
  logprobs_mode: z.enum(LOGPROBS_MODES).exactOptional(),
  /** The engine ended the generation here: whoever finds no `generation` line takes this for its end. */
  finish: Finish.exactOptional(),
});

/** The generation is whole: its tokens are those of its chunks. */
const GenerationLine = z.object({
  kind: z.literal('generation'),
  ...written,
  turn: z.int(),
  ...Finish.shape,
  content: z.string(),
  token_count: z.int(),
  queue_s: z.number(),
  generate_s: z.number(),
});

/** Far above any reward that means something, and far enough below float32's end that no sum of them is infinite. */
const LARGEST_REWARD = 1e30;
const tooLarge = `expected a number between -${LARGEST_REWARD} and ${LARGEST_REWARD}`;
export const Reward = z
  .number({ error: 'expected a finite number' })
  .min(-LARGEST_REWARD, tooLarge)
  .max(LARGEST_REWARD, tooLarge);

/** What an environment says of a turn. */
const ANSWER = {
  /** null: nothing, with which only a rollout's last turn is answered. */
  message: z.object({ role: z.string(), content: z.string() }).nullable(),
  reward: Reward,
  /** Named components, where the environment gives them. */
  rewards: z.record(z.string(), Reward),
  terminated: z.boolean(),
  truncated: z.boolean(),
  metadata: z.record(z.string(), z.unknown()).nullable(),
  next_stop_strings: z.array(z.string()).nullable(),
  /** What the environment took for the policy's answer; absent: nothing. */
  answer: z.string().exactOptional(),
};

const ObservationLine = z.object({
  kind: z.literal('observation'),
  ...written,
  turn: z.int(),
  ...ANSWER,
  /** Cut at `max_seq_len`; the content never is. */
  token_ids: tokenIds,
  step_s: z.number(),
  /** Of the rollout with this turn, for readers of the journal's last lines; the fold computes its own. */
  total_tokens: z.int().exactOptional(),
});

/** Of an environment with sessions: the turn is about to be sent to it (null), then what it answered. */
const StepLine = z.object({
  kind: z.literal('step'),
  ...written,
  turn: z.int(),
  answer: z.object(ANSWER).nullable(),
});

/** Counted, never a result. */
const FaultLine = z.object({
  kind: z.literal('fault'),
  ...written,
  turn: z.int(),
  type: z.string(),
  message: z.string(),
  replica: z.string().nullable(),
  /** Of a failed run of an agent. */
  failure_class: z.enum(FAILURE_CLASSES).exactOptional(),
  /** Of its answer over HTTP, where there was one. */
  status: z.int().exactOptional(),
  /** Takes the run in progress back: it was not played, or was cut by its own attempt's end, and is none of the row's attempts. */
  uncounted: z.literal(true).exactOptional(),
  /** The call that failed, how often it has since the rollout last came further, and since when (seconds since 1970). */
  waited: z.object({ call: z.string(), tries: z.int(), since: z.number() }).exactOptional(),
});

/** An agent is asked to play the rollout: written before the request is sent, since nobody knows what becomes of it. */
const RunLine = z.object({
  kind: z.literal('run'),
  ...written,
  /** `_ng_attempt_index`: failures and runs before this one. */
  attempt: z.int(),
  agent: z.string(),
  url: z.string(),
});

/** What the agent answered, as it came. */
const ResultLine = z.object({
  kind: z.literal('result'),
  ...written,
  attempt: z.int(),
  text: z.string(),
  /** null: none that counts, which only an answer that says that it failed, or that is masked, may have. */
  reward: Reward.nullable(),
  /** `_ng_failure_class` */
  failure_class: z.string().nullable(),
  /** The field by which the answer says that its reward means nothing. */
  masked: z.string().exactOptional(),
  /** `_ng_failure_terminal`: the row is not to be played again. */
  terminal: z.boolean(),
  /** Not `_ng_no_persist`. */
  persist: z.boolean(),
  /** What the answer holds to train on is wrong: it is no row, whatever its reward. */
  refused: z.object({ type: z.enum(FAULT_TYPES), message: z.string() }).exactOptional(),
  /** Of a reward that is a sum. */
  rewards: z.record(z.string(), Reward).exactOptional(),
  /** How many the answer has to train on (`agent/tokens.ts`); absent: none. */
  tokens: z.object({ prompt: z.int(), env: z.int(), calls: z.array(z.int()) }).exactOptional(),
  /** Of `response.usage`. */
  usage: z.object({ output_tokens: z.int(), total_tokens: z.int() }).nullable(),
  run_s: z.number(),
});

export const Failure = z.object({ type: z.string(), message: z.string(), turn: z.int() });
export type Failure = z.infer<typeof Failure>;

const EndLine = z.object({
  kind: z.literal('end'),
  ...written,
  stop_reason: z.enum(STOP_REASONS),
  /** Written for readers of the journal; the fold computes its own. */
  totals: z.object({
    turn_count: z.int(),
    total_reward: z.number(),
    total_tokens: z.int(),
  }),
  failure: Failure.nullable(),
  /** Absent in journals of earlier versions: whoever lists those folds them. */
  glance: Glance.exactOptional(),
});

export const JournalLine = z.discriminatedUnion('kind', [
  StartLine,
  ClaimLine,
  ChunkLine,
  GenerationLine,
  ObservationLine,
  BeginLine,
  StepLine,
  CloseLine,
  FaultLine,
  RunLine,
  ResultLine,
  EndLine,
]);
export type JournalLine = z.infer<typeof JournalLine>;
export type LineOf<K extends JournalLine['kind']> = Extract<JournalLine, { kind: K }>;

/** A line as its author writes it: the journal adds who and when. */
export type Entry = JournalLine extends infer L
  ? L extends JournalLine
    ? Omit<L, 'writer' | 'at'>
    : never
  : never;

/** A torn, empty or foreign line is null: it costs only itself. */
export function parseLine(text: string): JournalLine | null {
  if (text === '') return null;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return null;
  }
  const parsed = JournalLine.safeParse(value);
  return parsed.success ? parsed.data : null;
}
