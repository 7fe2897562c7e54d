import type { ToolCall } from '../../../model/calls/message.js';
import { createdOf, finishOf, modelOf, usageOf } from '../dialect.js';
import type { Answering } from '../dialect.js';

/** The answer does not repeat what the program asked for: its tools may be most of the bytes. */
const UNSAID = {
  error: null,
  instructions: null,
  metadata: {},
  temperature: null,
  tool_choice: 'auto',
  tools: [],
  top_p: null,
};

export function response(answering: Answering) {
  const { asked } = answering.call.line;
  const isCut = finishOf(answering) === 'length';
  return {
    id: `resp_${idOf(answering)}`,
    object: 'response',
    created_at: createdOf(answering),
    status: isCut ? 'incomplete' : 'completed',
    incomplete_details: isCut ? { reason: 'max_output_tokens' } : null,
    model: modelOf(answering),
    max_output_tokens: asked.max_tokens ?? null,
    output: outputOf(answering),
    usage: wireUsage(answering),
    parallel_tool_calls: asked.one_tool_call !== true,
    ...UNSAID,
  };
}

const idOf = ({ rollout_id, turn }: Answering): string => `${rollout_id}-${turn}`;

/** Agents end where an answer has a message and no calls: thoughts alone have an empty one behind them. */
function outputOf(answering: Answering): object[] {
  const { content = '', reasoning, tool_calls = [] } = answering.call.answer ?? {};
  const id = idOf(answering);
  return [
    ...(reasoning === undefined ? [] : [thoughts(reasoning, id)]),
    ...(content === '' && tool_calls.length > 0 ? [] : [message(content, id)]),
    ...tool_calls.map((call, k) => functionCall(call, `${id}-${k}`)),
  ];
}

const thoughts = (text: string, id: string) => ({
  type: 'reasoning',
  id: `rs_${id}`,
  summary: [{ type: 'summary_text', text }],
});

const message = (text: string, id: string) => ({
  type: 'message',
  id: `msg_${id}`,
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text, annotations: [] }],
});

const functionCall = ({ id: call_id, name, arguments: given }: ToolCall, id: string) => ({
  type: 'function_call',
  id: `fc_${id}`,
  call_id,
  name,
  arguments: given,
  status: 'completed',
});

function wireUsage(answering: Answering) {
  const { prompt, completion, total } = usageOf(answering);
  return {
    input_tokens: prompt,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: completion,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: total,
  };
}
