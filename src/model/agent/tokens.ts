import { z } from 'zod';
import { itemsOf, membersOf, objectText } from '../../platform/json/members.js';
import type { FaultType } from '../faults.js';
import { isLogprob, LOGPROB_RANGE } from '../logprob.js';
import { preview, problemsOf } from '../problems.js';
import type { LogMessage } from '../sample.js';
import { AnyList, TokenIds } from '../untrusted.js';
import type { Patterns } from '../journal.js';
import { type CallFlags, flagsOf } from './flags.js';

/** A message of an agent's log. Its text is in `agent_result`, its tokens are here. */
export type AgentMessage = LogMessage & Partial<CallFlags> & { routed_experts?: unknown[] };

/** The trainable part of an agent's answer, as NeMo RL's `run_async_nemo_gym_rollout` reads it. */
export type AgentTokens =
  | { kind: 'log'; messages: AgentMessage[] }
  /** No call has tokens: the model server returns none, or no call generated any. */
  | { kind: 'none'; why: string }
  /** The tokens contradict each other, so nothing of the answer can be trained on. */
  | { kind: 'refused'; fault: Refusal };

export interface Refusal {
  type: FaultType;
  message: string;
}

/** Token counts of an answer: the first prompt, what is between calls, and each call. */
export interface TokenCounts {
  prompt: number;
  env: number;
  calls: number[];
}

const Output = z.object({ response: z.object({ output: z.array(z.unknown()) }) });
/** `response.output` of a parsed answer; empty if it has none. */
export const outputOf = (answer: unknown): unknown[] =>
  Output.safeParse(answer).data?.response.output ?? [];
const Item = z.object({ generation_token_ids: AnyList.refine((ids) => ids.length > 0) });
const Call = z.object({
  prompt_token_ids: TokenIds,
  generation_token_ids: TokenIds,
  generation_log_probs: AnyList,
  /** For each token of prompt and generation, the experts that a mixture of experts chose. */
  routed_experts: AnyList.nullish(),
});
type Call = z.infer<typeof Call>;

/** The arrays that move from an item of `response.output` into the log. */
const ARRAYS = [
  'prompt_token_ids',
  'generation_token_ids',
  'generation_log_probs',
  'routed_experts',
] as const;

/** What was read so far. A call's prompt begins with the ids of earlier calls. */
interface Log {
  messages: AgentMessage[];
  seen: number[];
}

/**
 * Reads a parsed `/run` answer. Each output item with `generation_token_ids` is a call and becomes two messages: what
 * its prompt adds to the ids before, and what it generated. Items without ids are part of the next prompt.
 */
export function tokensOf(answer: unknown, patterns?: Patterns): AgentTokens {
  const output = outputOf(answer);
  const log: Log = { messages: [], seen: [] };
  for (const [index, item] of output.entries()) {
    if (!Item.safeParse(item).success) continue;
    const where = `response.output[${index}]`;
    const parsed = Call.safeParse(item);
    const problem = parsed.success
      ? appendCall(log, { call: parsed.data, flags: flagsOf(item, patterns) })
      : problemsOf(parsed.error, item).map((each) => `${each.where}: ${each.what}`)[0];
    if (problem !== undefined && problem !== null)
      return refused('ProtocolError', `${where}.${problem}`);
  }
  if (log.messages.length > 0) return { kind: 'log', messages: log.messages };
  return { kind: 'none', why: whyNone(output) };
}

const refused = (type: FaultType, message: string): AgentTokens => ({
  kind: 'refused',
  fault: { type, message },
});

/** Adds a call's messages to the log and returns null, or returns the problem. */
function appendCall(
  { messages, seen }: Log,
  { call, flags }: { call: Call; flags: CallFlags },
): string | null {
  const { prompt_token_ids: prompt, generation_token_ids: generated } = call;
  const problem = breakOf(seen, prompt) ?? logprobProblem(call) ?? routeProblem(call);
  if (problem !== null) return problem;
  const routes = routesOf(call, seen.length);
  const before = messages.at(-1)?.routed_experts;
  // The routing after a call's last token comes with the next call, whose engine is the first to see that token as
  // input.
  if (before !== undefined && routes !== null) before[before.length - 1] = routes.last;
  messages.push(
    {
      role: 'user',
      content: '',
      token_ids: prompt.slice(seen.length),
      ...(routes !== null && { routed_experts: routes.prompt }),
    },
    {
      role: 'assistant',
      content: '',
      token_ids: generated,
      generation_logprobs: call.generation_log_probs as number[],
      ...flags,
      ...(routes !== null && { routed_experts: routes.generated }),
    },
  );
  for (const id of prompt.slice(seen.length)) seen.push(id);
  for (const id of generated) seen.push(id);
  return null;
}

/**
 * Where a prompt is not an extension of what came before. Re-tokenised text breaks here: the ids to train on would
 * differ from the sampled ones.
 */
function breakOf(seen: number[], prompt: number[]): string | null {
  const at = seen.findIndex((id, index) => prompt[index] !== id);
  if (at < 0) return null;
  const got = prompt[at] === undefined ? `ends after ${prompt.length} ids` : `has ${prompt[at]}`;
  const around = (ids: number[]): string => ids.slice(Math.max(0, at - 2), at + 3).join(', ');
  return (
    `prompt_token_ids: Non-contiguous messages found! Expected the ${seen.length} ids of the conversation before, ` +
    `got other ones from token ${at} on: expected ${seen[at]}, the prompt ${got} ` +
    `(seen: … ${around(seen)} …; prompt: … ${around(prompt)} …). ` +
    'The model server renders and tokenises the history again, or part of it was removed'
  );
}

function logprobProblem({ generation_token_ids, generation_log_probs }: Call): string | null {
  const [ids, logprobs] = [generation_token_ids.length, generation_log_probs.length];
  if (ids !== logprobs)
    return `generation_log_probs: expected one for each of ${ids} generated ids, got ${logprobs}`;
  const at = generation_log_probs.findIndex((value) => !isLogprob(value));
  if (at < 0) return null;
  const value = generation_log_probs[at];
  // JSON has no NaN; servers write null instead.
  const said =
    value === null || Number.isNaN(value) ? 'Generation logprobs contain NaN' : preview(value);
  return `generation_log_probs[${at}]: expected ${LOGPROB_RANGE}, got: ${said}`;
}

function routeProblem(call: Call): string | null {
  const { routed_experts: routes, prompt_token_ids, generation_token_ids } = call;
  const expected = prompt_token_ids.length + generation_token_ids.length;
  if (routes === undefined || routes === null || routes.length === expected) return null;
  return `routed_experts: expected one for each of ${expected} ids of prompt and generation, got ${routes.length}`;
}

function routesOf({ routed_experts: routes, prompt_token_ids: prompt }: Call, seen: number) {
  if (routes === undefined || routes === null) return null;
  return {
    last: routes[seen - 1],
    prompt: routes.slice(seen, prompt.length),
    generated: routes.slice(prompt.length),
  };
}

function whyNone(output: unknown[]): string {
  const types = output.map((item) => Typed.safeParse(item).data?.type ?? 'unknown');
  const found = output.length === 0 ? 'there are none' : `they are ${shortList(types)}`;
  return (
    'NeMo Gym returned a result with no generation data: ' +
    `expected an item of response.output with generation_token_ids, ${found}. ` +
    'A model server returns them with return_token_id_information: true'
  );
}

const Typed = z.object({ type: z.string() });

const shortList = (names: string[]): string =>
  names.slice(0, 20).join(', ') + (names.length > 20 ? `, and ${names.length - 20} more` : '');

export function countsOf(messages: AgentMessage[]): TokenCounts {
  const lengths = (role: string): number[] =>
    messages.filter((message) => message.role === role).map(({ token_ids }) => token_ids.length);
  const [prompt = 0, ...between] = lengths('user');
  const env = between.reduce((sum, length) => sum + length, 0);
  return { prompt, env, calls: lengths('assistant') };
}

/** The text of an answer, on one line, without the arrays that the log has. */
export const withoutTokens = (text: string): string =>
  withMember(text, {
    name: 'response',
    change: (response) =>
      withMember(response, {
        name: 'output',
        change: (output) => `[${(itemsOf(output) ?? []).map(withoutArrays).join(',')}]`,
      }),
  });

function withMember(
  text: string,
  { name, change }: { name: string; change: (value: string) => string },
): string {
  const members = membersOf(text) ?? new Map<string, string>();
  return objectText(members.set(name, change(members.get(name) ?? 'null')));
}

function withoutArrays(item: string): string {
  const members = membersOf(item);
  const ids = members?.get('generation_token_ids') ?? '';
  if (members === null || !ids.startsWith('[') || ids === '[]') return item;
  for (const name of ARRAYS) members.delete(name);
  return objectText(members);
}
