import { z } from 'zod';
import { maybe, bool, number, text, count } from './field-kinds.js';
import { readJson, writeJson } from '../platform/json/kept.js';
import { Content } from './content.js';
import { FAILURE_CLASSES, Fault, FAULT_TYPES } from './faults.js';
import { Fork } from './fork.js';
import { GenerationSettings } from './generation-settings.js';
import { AGENT_LINES, Program } from './journal/agent-lines.js';
import { Glance } from './journal/glance.js';
import { foreign, line, logprobs, Reward, tokenIds } from './journal/line-parts.js';
import { LOGPROBS_MODES } from './logprobs-mode.js';
import { PlacedPicture } from './pictures.js';
import { AttemptSettings, Overlong, TrainResampled, TrainSeparate } from './play-settings.js';
import { preview } from './problems.js';
import { Semantics } from './semantics.js';
import { IN_LINES } from './workflow-safe/foreign.js';
import { STOP_REASONS } from './workflow-safe/stop-reasons.js';

/**
 * The lines of a rollout's journal, its append-only record and the truth about it. Every line names its writer, a
 * random id per activity attempt: Temporal's attempt numbers restart and give no order. `trajectory.ts` defines what
 * the lines mean together.
 */

/** Which of a message's ids stand for pictures. */
const pictures = { pictures: z.array(PlacedPicture).exactOptional() };

const LogMessage = z.object({
  role: z.string(),
  /** Images of the sample are references to it. */
  content: Content,
  token_ids: tokenIds,
  generation_logprobs: logprobs.optional(),
  prompt_logprobs: z
    .custom<(number | null)[]>(
      (value) => Array.isArray(value) && value.every((one) => one === null || Number.isFinite(one)),
      'expected finite numbers or null',
    )
    .exactOptional(),
  ...pictures,
});

/** What a rollout needs of its batch's request, resolved, so that a later attempt looks nothing up. */
export const RolloutSettings = z.object({
  generation: GenerationSettings,
  /** The served name that every request of this rollout uses. */
  model: z.string(),
  num_repeats_add_seed: z.boolean(),
  max_seq_len: z.number(),
  max_rollout_turns: z.number(),
  semantics: Semantics,
  policy_version: z.string().nullable(),
  /** How many versions one turn may contain; null: any number. */
  max_version_span: z.number().nullable().default(null),
  attempts: AttemptSettings,
  overlong: Overlong.default('keep'),
  train_resampled: TrainResampled.default('winner'),
  train_separate: TrainSeparate.default('all'),
  /** How often a stream has played all samples before, on which its seeds depend; absent: 0. */
  epoch: z.int().nonnegative().exactOptional(),
});
export type RolloutSettings = z.infer<typeof RolloutSettings>;

const StartLine = line('start', {
  schema_version: z.literal(1),
  task_name: z.string(),
  /** An agent plays the whole rollout: it has calls instead of turns, and no prompt of its own. */
  plays: z.literal('agent').exactOptional(),
  /** How its calls are read, and who says what they are worth. */
  program: Program.exactOptional(),
  settings: RolloutSettings,
  prompt: z.array(LogMessage),
  extra_env_info: foreign,
  /** Absent if the sample has no such column; `nemo-rl-sync` treats that differently from null. */
  stop_strings: z.array(z.string()).nullable().optional(),
  /** The sample's `loss_multiplier` is 0: no token of its rollouts trains. */
  untrained: z.literal(true).exactOptional(),
  /** The environment lost its session: the rollout starts over, and earlier turns are dropped. */
  over: z.literal(true).exactOptional(),
  /** It begins with so many lines of another rollout, which follow this one. */
  fork: Fork.extend({ lines: z.int() }).exactOptional(),
  /** What lists show before it, for readers of only the last lines. Absent if it starts over. */
  glance: Glance.exactOptional(),
});

/** `asked`: the request is about to be sent, so it may happen from here on. `none`: the environment has no sessions. */
const SessionMark = z.enum(['asked', 'none']).exactOptional();

/** The environment opened a session for the rollout, before its prompt is rendered. */
const BeginLine = line('begin', {
  task_name: z.string(),
  session: SessionMark,
  /** The id of the store under which it is begun and ended. */
  deployment: z.string().exactOptional(),
  /** Messages that the environment adds to the sample's prompt. */
  messages: z.array(z.object({ role: z.string(), content: z.string() })),
  /** Its first state, instead of the sample's `extra_env_info`. */
  metadata: foreign,
});

/** The session was ended. A later attempt needs another one. */
const CloseLine = line('close', { session: SessionMark });

/** Limits that were changed while the rollout ran. */
export const ChangedLimits = z.object({
  max_rollout_turns: z.int().exactOptional(),
  max_new_tokens: z.int().exactOptional(),
  max_seq_len: z.int().exactOptional(),
});

/** Takes the journal over. Later lines of earlier writers are ignored. */
const ClaimLine = line('claim', {
  activity: z.string(),
  /** The activity's own attempt number. Above 1, an earlier attempt did not report. */
  attempt: z.int(),
  /** Set only by `openRollout`: a rollout that ended without a valid result continues. */
  reopen: z.boolean(),
  /** They replace the settings of `start` from here on. */
  limits: ChangedLimits.exactOptional(),
  /** Seconds before it in which no attempt of its task gave a sign. */
  lost_s: z.number().exactOptional(),
  /** Set by a replacement's `openRollout`: the repeat that failed. */
  replaces: z.int().exactOptional(),
  /** Set by `openRollout` and `finishRollout`: the workflow's run. What a run has finished it does not open again. */
  run: z.string().exactOptional(),
});

export const Finish = z.object({
  finish_reason: z.enum(['stop', 'length']),
  /** The stop string or stop token id; null for the end of sequence and for `length`. */
  stop_reason: z.union([z.string(), z.number()]).nullable(),
});
export type Finish = z.infer<typeof Finish>;

/** For each token, some of the likeliest ids with their logprobs, the likeliest first. */
const TopLogprobs = z.array(z.array(z.tuple([z.int(), z.number()])));
export type TopLogprobs = z.infer<typeof TopLogprobs>;

/** Tokens of a generation as they streamed in. It drops the turn's tokens at `offset` and beyond. */
const ChunkLine = line('chunk', {
  turn: z.int(),
  offset: z.int(),
  token_ids: tokenIds,
  logprobs,
  /** If they were requested: one entry for each token. */
  top_logprobs: TopLogprobs.exactOptional(),
  text: z.string(),
  replica: z.string(),
  request_id: z.string(),
  policy_version: z.string().nullable(),
  /** `pending`: not yet known; an attempt that resumes here drops these tokens. Absent: what was asked, or none. */
  version_source: z.enum(['engine', 'record', 'none', 'pending']).exactOptional(),
  /** The replica's mode, if logprobs were requested. */
  logprobs_mode: z.enum(LOGPROBS_MODES).exactOptional(),
  /** The engine ended the generation here. It counts as the end if there is no `generation` line. */
  finish: Finish.exactOptional(),
});

/** The generation is complete: its tokens are those of its chunks. */
const GenerationLine = line('generation', {
  turn: z.int(),
  ...Finish.shape,
  content: z.string(),
  token_count: z.int(),
  queue_s: z.number(),
  generate_s: z.number(),
});

const ANSWER = {
  /** null: no message, allowed only for a rollout's last turn. Its pictures are named by hash. */
  message: z.object({ role: z.string(), content: Content }).nullable(),
  reward: Reward,
  rewards: z.record(z.string(), Reward),
  terminated: z.boolean(),
  truncated: z.boolean(),
  metadata: foreign.nullable(),
  next_stop_strings: z.array(z.string()).nullable(),
  /** What the environment extracted as the policy's answer; absent: nothing. */
  answer: z.string().exactOptional(),
};

const ObservationLine = line('observation', {
  turn: z.int(),
  ...ANSWER,
  /** Cut at `max_seq_len`; the content is never cut. */
  token_ids: tokenIds,
  ...pictures,
  step_s: z.number(),
  /** Tokens of the rollout including this turn, for readers of only the last lines. The fold computes its own. */
  total_tokens: z.int().exactOptional(),
  /** What lists show after it, likewise. */
  glance: Glance.exactOptional(),
});

/** For environments with sessions: null before the turn is sent, then the answer. */
const StepLine = line('step', {
  turn: z.int(),
  answer: z.object(ANSWER).nullable(),
});

/** Counted, never a result. */
const FaultLine = line('fault', {
  turn: z.int(),
  type: z.string(),
  message: z.string(),
  replica: z.string().nullable(),
  failure_class: z.enum(FAILURE_CLASSES).exactOptional(),
  status: z.int().exactOptional(),
  /** Of a life that is none of the lives that may fail: its agent did not play it, or its own attempt's end cut it. */
  uncounted: z.literal(true).exactOptional(),
  /**
   * The call that failed, how often since the rollout last progressed, and since when (seconds since 1970); since when
   * its answers contradict what planning saw.
   */
  waited: z
    .object({
      call: z.string(),
      tries: z.int(),
      since: z.number(),
      denied_since: z.number().exactOptional(),
    })
    .exactOptional(),
});

/** Why a reward is not the agent's own. Here, so that readers of journals load no rules of agents. */
export const Shaping = z.object({
  reward: number("the agent's own reward"),
  effort: z
    .object({
      low: bool('the prompt asks for little effort'),
      length: count('tokens of the last call'),
      length_reward: z.number().exactOptional().describe('with `low`: reward of the length'),
      reward: maybe(z.number(), 'with `low`: the reward with that, before penalties'),
    })
    .exactOptional()
    .describe('with `effort_levels`'),
  penalties: maybe(
    z.record(z.string(), z.boolean()),
    'with `reward_penalties`: by name, whether the answer has the mistake. One mistake makes the reward 0',
  ),
});
export type Shaping = z.infer<typeof Shaping>;

/** What an agent of NeMo Gym answers to its run, as it came. One that only lacks a usable reward has none either. */
const ResultLine = line('result', {
  /** `_ng_attempt_index`: failures before this one. */
  attempt: z.int(),
  text: z.string(),
  /** To train on. null: no valid reward, allowed only in an answer that reports a failure or is masked. */
  reward: Reward.nullable(),
  /** `_ng_failure_class` */
  failure_class: z.string().nullable(),
  /** The field by which the answer says that its reward is invalid. */
  masked: z.string().exactOptional(),
  /** The field by which the answer asks not to be trained on: its row has loss multiplier 0. */
  untrained: z.string().exactOptional(),
  shaping: Shaping.exactOptional(),
  /** `_ng_failure_terminal`: the row must not be played again. */
  terminal: z.boolean(),
  /** Not `_ng_no_persist`. */
  persist: z.boolean(),
  /** What is wrong with the trainable content; the answer is then not a row, whatever its reward. */
  refused: z.object({ type: z.enum(FAULT_TYPES), message: z.string() }).exactOptional(),
  /** Components, for a reward that is a sum. */
  rewards: z.record(z.string(), Reward).exactOptional(),
  /** From `response.usage`. */
  usage: z.object({ output_tokens: z.int(), total_tokens: z.int() }).nullable(),
  run_s: z.number(),
});

export const Failure = z.object({
  type: text('the fault, or `TimedOut`, `Stopped`, `Cancelled`, `Surplus`, `Overlong`'),
  message: text('what happened, where, and what to do'),
  turn: count('the turn in which it failed, from 0'),
});
export type Failure = z.infer<typeof Failure>;

const EndLine = line('end', {
  stop_reason: z.enum(STOP_REASONS),
  /** For readers of the journal; the fold computes its own. */
  totals: z.object({
    turn_count: z.int(),
    total_reward: z.number(),
    total_tokens: z.int(),
  }),
  failure: Failure.nullable(),
  /** Absent in journals of earlier versions, which lists have to fold. */
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
  ResultLine,
  EndLine,
  ...AGENT_LINES,
]);
export type JournalLine = z.infer<typeof JournalLine>;
export type LineOf<K extends JournalLine['kind']> = Extract<JournalLine, { kind: K }>;

/** A line as its author writes it. The journal adds writer and time. */
export type Entry = JournalLine extends infer L
  ? L extends JournalLine
    ? Omit<L, 'writer' | 'at'>
    : never
  : never;

/**
 * null for a torn, empty or foreign line, which costs only itself. Throws a `StoreFault` for a kind that is not known: a
 * later version wrote it, and what follows from it would be wrong without it.
 */
export function parseLine(text: string): JournalLine | null {
  if (text === '') return null;
  let value: unknown;
  try {
    value = readLine(text);
  } catch {
    return null;
  }
  const parsed = JournalLine.safeParse(value);
  if (parsed.success) return parsed.data;
  const { kind, writer } = Object(value) as { kind?: unknown; writer?: unknown };
  if (typeof kind !== 'string' || typeof writer !== 'string' || KINDS.has(kind)) return null;
  // Runs of NeMo Gym's agents were no lives once.
  const which = kind === 'run' ? 'an earlier' : 'a later';
  throw new Fault({
    type: 'StoreFault',
    message: `a line of a journal: expected a kind that this version knows, got ${preview(kind)}: ${which} version wrote it, so use that one`,
  });
}

const KINDS: ReadonlySet<string> = new Set(
  JournalLine.options.flatMap(({ shape }) => [...shape.kind.values]),
);

/** Kinds that hold data of others. The long lines are of other kinds. */
const FOREIGN_KINDS: readonly JournalLine['kind'][] = [
  'start',
  'begin',
  'step',
  'observation',
  'material',
];

/** A line unchecked. `kind` comes first in all that this project writes. */
export const readLine = (text: string): unknown =>
  FOREIGN_KINDS.some((kind) => text.startsWith(`{"kind":"${kind}"`))
    ? readJson(text, IN_LINES)
    : JSON.parse(text);

export const lineText = (line: JournalLine): string => `${writeJson(line)}\n`;
