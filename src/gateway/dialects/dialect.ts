import type { AskedSampling, Said } from '../../model/calls/message.js';
import type { JournalCall } from '../../model/journal/calls.js';
import type { Sampled } from '../../model/journal/open-answers.js';
import type { News } from '../deliver/pieces.js';
import type { Refusal } from '../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../request/request.js';

/** How some clients ask and are answered. Nothing else asks in which dialect: calls of several may be one. */
export interface Dialect {
  /** Its path, behind `/v1/`. */
  name: DialectName;
  /** The request in a body. Throws a `Refused`. */
  read: (body: Buffer, limits: RequestLimits) => AgentRequest;
  /** `asked`: by a request that was read. A text is the events of a stream. */
  refusal: (refusal: Refusal, asked?: HowAsked) => { status: number; body: object | string };
  /** A whole answer. Each byte is a function of the call: whoever asks again gets the same. */
  answer: (answering: Answering) => object;
  /** What a stream sends: first, for what is new, and behind the `answer` line. null: none is asked for. */
  stream: {
    first: (answering: Answering) => string;
    news: (answering: Answering, news: News) => string;
    last: (answering: Answering, asked: { include_usage?: boolean }) => string;
  } | null;
}

/** In what form a request asks for its answer. */
export type HowAsked = Pick<AgentRequest, 'stream'> & {
  asked: Pick<AskedSampling, 'include_usage'>;
};

export type DialectName = 'chat/completions' | 'responses';

export interface Answering {
  rollout_id: string;
  turn: number;
  call: {
    line: Pick<JournalCall['line'], 'at' | 'asked'>;
    prompt_length: number;
    sampled: Pick<Sampled, 'token_ids' | 'logprobs' | 'top_logprobs'> & {
      generation: { finish_reason: string } | null;
    };
    answer: Said | null;
  };
}

export const modelOf = ({ call }: Answering): string => call.line.asked.model ?? 'policy';

export const createdOf = ({ call }: Answering): number => Math.floor(call.line.at);

export function usageOf({ call: { prompt_length, answer, sampled } }: Answering) {
  const completion = answer === null ? 0 : sampled.token_ids.length;
  return { prompt: prompt_length, completion, total: prompt_length + completion };
}

/** As chat completions name it. */
export const finishOf = ({ call: { answer, sampled } }: Answering): string =>
  (answer?.tool_calls.length ?? 0) > 0
    ? 'tool_calls'
    : (sampled.generation?.finish_reason ?? 'stop');
