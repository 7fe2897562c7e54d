import type { JournalCall } from '../../model/journal/calls.js';
import type { News } from '../deliver/pieces.js';
import type { Refusal } from '../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../request/request.js';

/**
 * How some clients ask and are answered. Nothing else of the gateway asks which dialect a request came in: calls of
 * several may be one.
 */
export interface Dialect {
  /** Its path, behind `/v1/`. */
  name: DialectName;
  /** The request in a body, or what its agent is told. */
  read: (body: Buffer, limits: RequestLimits) => { request: AgentRequest } | { refused: Refusal };
  refusal: (refusal: Refusal) => object;
  /** A whole answer. Each byte is a function of the call: whoever asks again gets the same. */
  answer: (answering: Answering) => object;
  /** What a stream sends: first, for what is new, and behind the `answer` line. null: none is asked for. */
  stream: {
    first: (answering: Answering) => string;
    news: (answering: Answering, news: News) => string;
    last: (answering: Answering, asked: { include_usage?: boolean }) => string;
  } | null;
}

export type DialectName = 'chat/completions' | 'responses';

export interface Answering {
  rollout_id: string;
  turn: number;
  call: JournalCall;
}
