import { z } from 'zod';
import { KeptJson } from '../../platform/json/kept.js';
import { AskedSampling, CallMessage, CAUSES, Said } from '../calls/message.js';
import { Glance } from './glance.js';
import { foreign, line, Reward, tokenIds } from './line-parts.js';

/** Lines of a rollout whose agent asks for answers by itself. `calls.ts` defines what they mean together. */

/** Tools as an agent describes them, checked when they came: a list, or its text if JavaScript would lose some of it. */
export type Tools = readonly unknown[] | KeptJson;
const tools = z.custom<Tools>(
  (value) => Array.isArray(value) || value instanceof KeptJson,
  'expected a list',
);

/** How answers can be read; `none`: what they say is text. */
export const TOOL_PARSERS = ['hermes', 'none'] as const;
/** `deepseek_r1`: the prompt has opened the thoughts. */
export const REASONING_PARSERS = ['qwen3', 'deepseek_r1', 'none'] as const;

/** In force for the whole rollout, since the calls of all its lives are read alike. */
export const Program = z.object({
  tool_parser: z.enum(TOOL_PARSERS),
  reasoning_parser: z.enum(REASONING_PARSERS),
  history: z.enum(['append', 'template']),
  /** The environment that says what the rollout is worth; null: its service does. */
  verify: z.string().nullable(),
});
export type Program = z.infer<typeof Program>;

/** A start of the agent's program. Keys of earlier lives are void. */
const LifeLine = line('life', {
  life: z.int().positive(),
  restart: z.enum(['replay', 'fresh']),
  /** Where the program was told to ask; absent: with its worker. */
  base_url: z.string().exactOptional(),
});

/** What many calls have in common, under its hash. */
const MaterialLine = line('material', {
  hash: z.string(),
  tools: tools.exactOptional(),
  /** The message with which a conversation begins. */
  system: z.string().exactOptional(),
});

/** The agent asks for an answer. Its tokens stand in `chunk` lines of the same number. */
const CallLine = line('call', {
  turn: z.int().nonnegative(),
  life: z.int().positive(),
  /** SHA-256 of the request's meaning. */
  key: z.string(),
  /** The call whose conversation it has most of; null: none. */
  parent: z.int().nonnegative().nullable(),
  /** How many messages of that conversation it shares, the answer counted. Absent: all. */
  message: z.int().nonnegative().exactOptional(),
  /** Absent: it continues its parent, and is the first to do so. */
  cause: z.enum(CAUSES).exactOptional(),
  /**
   * Where a life that replays asks something else: the earlier call that would have been the same, and how many
   * messages are. Absent: its system message or tools differ.
   */
  diverged: z
    .object({ call: z.int().nonnegative(), message: z.int().nonnegative().exactOptional() })
    .exactOptional(),
  /** Its prompt begins with so many ids of that call's prompt and answer. Absent without a cause: all of the parent's. */
  fork: z.object({ call: z.int().nonnegative(), ids: z.int().positive() }).exactOptional(),
  stream: z.boolean(),
  system: z.string().nullable(),
  tools: z.string().nullable(),
  /** Messages beyond those that it shares with its parent. */
  news: z.array(CallMessage),
  prompt_ids: tokenIds,
  asked: AskedSampling,
});

/** An answer as agents read it, behind its `generation`. */
const AnswerLine = line('answer', {
  turn: z.int().nonnegative(),
  ...Said.shape,
  /** What lists show after it, for readers of only the last lines. */
  glance: Glance.exactOptional(),
});

/** An answer was given to a life: `whole` if it is known to have arrived. */
const ServedLine = line('served', {
  turn: z.int().nonnegative(),
  life: z.int().positive(),
  whole: z.boolean(),
});

/** A request that got no call: the context is full, or a limit is reached. */
const RefusedLine = line('refused', {
  life: z.int().positive(),
  key: z.string(),
  code: z.string(),
  message: z.string(),
  /** Which limit is reached; absent: the context is full. */
  limit: z.enum(['calls', 'sequences', 'sampled_tokens']).exactOptional(),
});

const ExitLine = line('exit', {
  life: z.int().positive(),
  code: z.int().nullable(),
  signal: z.string().nullable(),
  /** Its service says that it failed, whatever its calls were refused. */
  failed: z.literal(true).exactOptional(),
  tail: z.string(),
  submission: z.string().nullable(),
  /** What a service answers besides: its reward, where no other environment says it. */
  said: z
    .object({
      reward: Reward.nullable(),
      rewards: z.record(z.string(), Reward),
      metadata: foreign.nullable(),
    })
    .exactOptional(),
});

export const AGENT_LINES = [
  LifeLine,
  MaterialLine,
  CallLine,
  AnswerLine,
  ServedLine,
  RefusedLine,
  ExitLine,
] as const;
