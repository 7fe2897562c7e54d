import type { ToolCall } from '../../../model/calls/message.js';
import type { News } from '../../deliver/pieces.js';
import { createdOf, finishOf, modelOf, usageOf } from '../dialect.js';
import type { Answering } from '../dialect.js';

const headOf = (answering: Answering) => ({
  id: `chatcmpl-${answering.rollout_id}-${answering.turn}`,
  created: createdOf(answering),
  model: modelOf(answering),
});

function wireUsage(answering: Answering) {
  const { prompt, completion, total } = usageOf(answering);
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total };
}

const wireCall = ({ id, name, arguments: given }: ToolCall) => ({
  id,
  type: 'function' as const,
  function: { name, arguments: given },
});

/** Older clients read one field, newer ones the other. */
const thoughts = (reasoning: string | undefined) =>
  reasoning === undefined ? {} : { reasoning_content: reasoning, reasoning };

/** No decoder says the text of one token of several: ids are exact, and named as vLLM names them. */
const named = (id: number, logprob: number) => ({ token: `token_id:${id}`, logprob, bytes: null });

/** As far as the rollout has them: its batch says whether and how many. */
function logprobsOf({ call: { line, sampled } }: Answering) {
  const most = line.asked.logprobs;
  if (most === undefined) return {};
  if (sampled.logprobs.length === 0) return { logprobs: null };
  const { token_ids, logprobs, top_logprobs } = sampled;
  const content = token_ids.map((id, k) => ({
    ...named(id, logprobs[k] ?? 0),
    top_logprobs: (top_logprobs[k] ?? [])
      .slice(0, most)
      .map(([one, logprob]) => named(one, logprob)),
  }));
  return { logprobs: { content, refusal: null } };
}

export function completion(answering: Answering) {
  const { content = '', reasoning, tool_calls = [] } = answering.call.answer ?? {};
  const isSilent = content === '' && tool_calls.length > 0;
  return {
    ...headOf(answering),
    object: 'chat.completion',
    choices: [
      {
        index: 0,
        message: {
          role: 'assistant',
          content: isSilent ? null : content,
          ...thoughts(reasoning),
          ...(tool_calls.length > 0 && { tool_calls: tool_calls.map(wireCall) }),
        },
        finish_reason: finishOf(answering),
        ...logprobsOf(answering),
      },
    ],
    usage: wireUsage(answering),
  };
}

type Event = Record<string, unknown>;

const event = (
  answering: Answering,
  choice: { delta: object; finish_reason?: string; logprobs?: object | null },
): Event => ({
  ...headOf(answering),
  object: 'chat.completion.chunk',
  choices: [{ index: 0, finish_reason: null, ...choice }],
});

export const firstEvent = (answering: Answering): Event =>
  event(answering, { delta: { role: 'assistant', content: '' } });

/** Events for what is new; none where nothing is. */
export function newsEvents(answering: Answering, news: News): Event[] {
  const { reasoning = '', content, tool_calls } = news;
  const deltas = [
    ...(reasoning === '' ? [] : [thoughts(reasoning)]),
    ...(content === '' ? [] : [{ content }]),
    ...tool_calls.calls.map((call, k) => ({
      tool_calls: [{ index: tool_calls.from + k, ...wireCall(call) }],
    })),
  ];
  return deltas.map((delta) => event(answering, { delta }));
}

/** The last events, behind the `answer` line; `[DONE]` follows. Usage is for the connection that asks for it. */
export const lastEvents = (
  answering: Answering,
  { include_usage = false }: { include_usage?: boolean },
): Event[] => [
  event(answering, { delta: {}, finish_reason: finishOf(answering), ...logprobsOf(answering) }),
  ...(include_usage
    ? [{ ...event(answering, { delta: {} }), choices: [], usage: wireUsage(answering) }]
    : []),
];
