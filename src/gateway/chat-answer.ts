import type { Said, ToolCall } from '../model/calls/message.js';
import type { ReadAnswer } from '../model/calls/parsers/read-answer.js';
import { callId } from '../model/calls/parsers/read-answer.js';

/**
 * An answer in the words of `/v1/chat/completions`, whole or as a stream. Everything is a function of the call, so that
 * whoever asks again gets the same.
 */
export interface ChatHead {
  /** Names the answer: of the rollout and the call. */
  id: string;
  /** Seconds since 1970, when the call began. */
  created: number;
  /** As the agent names the policy. */
  model: string;
}

export type Finish = 'stop' | 'length' | 'tool_calls';

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
}

/** An answer that calls tools ends for them, unless its room ended before. */
export const finishOf = (said: Pick<Said, 'tool_calls'>, reason: 'stop' | 'length'): Finish =>
  reason === 'stop' && said.tool_calls.length > 0 ? 'tool_calls' : reason;

/** The body of an answer that is no stream. */
export const chatCompletion = (
  head: ChatHead,
  { said, finish, usage }: { said: Said; finish: Finish; usage: Usage },
): object => ({
  ...headOf(head, 'chat.completion'),
  choices: [{ index: 0, message: messageOf(said), finish_reason: finish, logprobs: null }],
  usage: usageOf(usage),
});

function messageOf({ content, reasoning, tool_calls }: Said): object {
  return {
    role: 'assistant',
    // As OpenAI has it where nothing is said beside calls.
    content: content === '' && tool_calls.length > 0 ? null : content,
    refusal: null,
    ...reasoningOf(reasoning),
    ...(tool_calls.length > 0 && { tool_calls: tool_calls.map(wireCall) }),
  };
}

/** One field for vLLM's older clients and one for newer ones. */
const reasoningOf = (reasoning: string | undefined): object =>
  reasoning === undefined ? {} : { reasoning_content: reasoning, reasoning };

const wireCall = ({ id, name, arguments: given }: ToolCall): object => ({
  id,
  type: 'function',
  function: { name, arguments: given },
});

const headOf = ({ id, created, model }: ChatHead, object: string): object => ({
  id,
  object,
  created,
  model,
  system_fingerprint: null,
});

const usageOf = ({ prompt_tokens, completion_tokens }: Usage): object => ({
  prompt_tokens,
  completion_tokens,
  total_tokens: prompt_tokens + completion_tokens,
});

/** Writes the events of a stream. */
export interface ChatStream {
  /** Before anything is said. */
  begin: () => string;
  /** What a reading of the answer has beyond the one before it; nothing for no news. */
  news: (news: Omit<ReadAnswer, 'malformed'>) => string;
  /** Behind the journal's `answer` line. */
  end: (end: { finish: Finish; usage: Usage }) => string;
}

export function createChatStream(
  head: ChatHead,
  { turn, include_usage }: { turn: number; include_usage: boolean },
): ChatStream {
  let calls = 0;
  const common = headOf(head, 'chat.completion.chunk');
  const event = (value: object): string => `data: ${JSON.stringify({ ...common, ...value })}\n\n`;
  const chunk = (delta: object, finish_reason: Finish | null = null): string =>
    event({ choices: [{ index: 0, delta, finish_reason, logprobs: null }], ...(include_usage && { usage: null }) }); // prettier-ignore
  const wireNews = (call: ReadAnswer['calls'][number]): object => {
    const index = calls;
    calls += 1;
    return { index, ...wireCall({ id: callId(turn, index), ...call }) };
  };
  return {
    begin: () => chunk({ role: 'assistant', content: '' }),
    news: ({ reasoning = '', content, calls: made }) =>
      [
        ...(reasoning === '' ? [] : [chunk({ ...reasoningOf(reasoning) })]),
        ...(content === '' ? [] : [chunk({ content })]),
        ...made.map((call) => chunk({ tool_calls: [wireNews(call)] })),
      ].join(''),
    end: ({ finish, usage }) =>
      [
        chunk({}, finish),
        ...(include_usage ? [event({ choices: [], usage: usageOf(usage) })] : []),
        'data: [DONE]\n\n',
      ].join(''),
  };
}

/** Keeps a connection open; not even a blank line, which some clients take for an event. */
export const KEEP_ALIVE = ': \n';

/** An error behind the first event: clients of a stream read no status any more. */
export const streamError = (error: object): string => `data: ${JSON.stringify({ error })}\n\n`;
