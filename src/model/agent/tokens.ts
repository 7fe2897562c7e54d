import { z } from 'zod';
import type { FaultType } from '../faults.js';
import { preview, problemsOf } from '../problems.js';
import type { LogMessage } from '../sample.js';
import { TokenId } from '../token-id.js';
import { listOf } from '../untrusted.js';
import { type CallFlags, flagsOf } from './flags.js';

/** A message of an agent's log: the text is in `agent_result`, the tokens are here. */
export type AgentMessage = LogMessage & Partial<CallFlags> & { routed_experts?: unknown[] };

/** What an agent's answer holds to train on, as NeMo RL's `run_async_nemo_gym_rollout` reads it. */
export type AgentTokens =
  | { kind: 'log'; messages: AgentMessage[] }
  /** No call has tokens: a model server that returns none, or no call that generated any. */
  | { kind: 'none'; why: string }
  /** The tokens contradict each other: nothing of the answer is to be trained on. */
  | { kind: 'refused'; fault: Refusal };

export interface Refusal {
  type: FaultType;
  message: string;
}

/** How many tokens an answer has, for whoever does not read them: the first prompt, what stands between calls, each call. */
export interface TokenCounts {
  prompt: number;
  env: number;
  calls: number[];
}

const Output = z.object({ response: z.object({ output: z.array(z.unknown()) }) });
const Item = z.object({ generation_token_ids: z.array(z.unknown()).min(1) });
const Call = z.object({
  prompt_token_ids: listOf(TokenId),
  generation_token_ids: listOf(TokenId),
  generation_log_probs: z.array(z.unknown()),
  /** Of each token of prompt and generation, a mixture's choice of experts. */
  routed_experts: z.array(z.unknown()).nullish(),
});
type Call = z.infer<typeof Call>;

/** The arrays that move from an item of `response.output` into the log. */
const ARRAYS = [
  'prompt_token_ids',
  'generation_token_ids',
  'generation_log_probs',
  'routed_experts',
] as const;

/** What was read so far; a call goes on from the ids of those before it. */
interface Log {
  messages: AgentMessage[];
  seen: number[];
}

/**
 * `answer`: a `/run` answer, parsed. Each item of its output with `generation_token_ids` is a call: two messages, what
 * its prompt adds to the ids before, and what it generated. What has no ids is part of the next prompt.
 */
export function tokensOf(answer: unknown): AgentTokens {
  const output = Output.safeParse(answer).data?.response.output ?? [];
  const log: Log = { messages: [], seen: [] };
  for (const [index, item] of output.entries()) {
    if (!Item.safeParse(item).success) continue;
    const where = `response.output[${index}]`;
    const parsed = Call.safeParse(item);
    const problem = parsed.success
      ? appendCall(log, { call: parsed.data, flags: flagsOf(item) })
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

/** What is wrong with a call, or null and its messages are in the log. */
function appendCall(
  { messages, seen }: Log,
  { call, flags }: { call: Call; flags: CallFlags },
): string | null {
  const { prompt_token_ids: prompt, generation_token_ids: generated } = call;
  const problem = breakOf(seen, prompt) ?? logprobProblem(call) ?? routeProblem(call);
  if (problem !== null) return problem;
  const routes = routesOf(call, seen.length);
  const before = messages.at(-1)?.routed_experts;
  // What follows a call's last token is routed in the next call: its engine saw it there first.
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

/** Where a prompt is not what was said before and more. Text that is tokenised again breaks here: the ids trained on would not be those that were sampled. */
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
  const at = generation_log_probs.findIndex((value) => !Number.isFinite(value));
  if (at < 0) return null;
  const value = generation_log_probs[at];
  // JSON has no NaN: servers write null in its place.
  const said =
    value === null || Number.isNaN(value) ? 'Generation logprobs contain NaN' : preview(value);
  return `generation_log_probs[${at}]: expected a finite number, got: ${said}`;
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

/** The answer without the arrays that its log has; it is changed in place. */
export function withoutTokens(answer: unknown): unknown {
  for (const item of Output.safeParse(answer).data?.response.output ?? []) {
    if (!Item.safeParse(item).success) continue;
    for (const name of ARRAYS) Reflect.deleteProperty(item as object, name);
  }
  return answer;
}
