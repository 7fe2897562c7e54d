import { z } from 'zod';
import { maybe, text } from '../field-kinds.js';

/** A conversation of an agent with the policy, whatever dialect it came in. */

export const ToolCall = z.object({
  id: text('id of the call, as the agent got it'),
  name: text("the tool's name"),
  arguments: text('arguments as the policy wrote them, as JSON'),
});
export type ToolCall = z.infer<typeof ToolCall>;

export const CallMessage = z.object({
  role: z.string(),
  content: z.string(),
  reasoning: maybe(z.string(), "of an agent: the policy's thoughts, as the agent got them"),
  tool_calls: maybe(z.array(ToolCall), 'of an agent: the tools that the policy calls'),
  tool_call_id: maybe(z.string(), "of a tool's result: id of the call"),
  is_error: maybe(z.literal(true), "of a tool's result: the tool failed"),
});
export type CallMessage = z.infer<typeof CallMessage>;

/** What the policy says in a call, as its parsers read it. */
export const Said = z.object({
  content: z.string(),
  reasoning: z.string().exactOptional(),
  tool_calls: z.array(ToolCall),
  /** How much of the content stands before each tool call, as streams send them. Absent: all of it. */
  calls_at: z.array(z.int()).exactOptional(),
  /** Tool calls that do not parse. They are part of the content, and never repaired. */
  malformed: z.int(),
});
export type Said = z.infer<typeof Said>;

/** The message by which an agent says an answer again. */
export const messageOf = ({ content, reasoning, tool_calls }: Said): CallMessage => ({
  role: 'assistant',
  content,
  ...(reasoning !== undefined && { reasoning }),
  ...(tool_calls.length > 0 && { tool_calls }),
});

/** What an agent asks of sampling; the batch's settings are in force. */
export const AskedSampling = z.object({
  /** As it names the policy: echoed. */
  model: z.string().exactOptional(),
  /** Lowers the limit. */
  max_tokens: z.int().positive().exactOptional(),
  /** Beside those of the rollout. */
  stop: z.array(z.string()).exactOptional(),
  /** So many of the likeliest are answered for each token; 0: the sampled one alone. */
  logprobs: z.int().min(0).exactOptional(),
  /** The last event of a stream has the usage. */
  include_usage: z.literal(true).exactOptional(),
  /** It is told the first tool call of an answer at most: others are sampled, and nobody hears of them. */
  one_tool_call: z.literal(true).exactOptional(),
  /** What the answer has to look like, where the environment allows it: `response_format` as JSON. */
  structured: z.string().exactOptional(),
  /** What the agent asked for in vain, by field. */
  ignored: z.array(z.string()).exactOptional(),
});
export type AskedSampling = z.infer<typeof AskedSampling>;

/** Why a call is no continuation of one that nothing else continues. */
export const CAUSES = [
  'first',
  'separate',
  'edited',
  'shortened',
  'resampled',
  'diverged',
  'template',
] as const;
