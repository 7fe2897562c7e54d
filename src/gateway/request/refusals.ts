/** What an agent is told instead of an answer, in the words of its dialect. */
export interface Refusal {
  status: 400 | 401 | 404 | 408 | 409 | 410 | 413 | 415 | 422 | 500 | 503;
  /** Why, for programs: OpenAI's codes where they have one. */
  code: string;
  message: string;
  param?: string;
  limit?: Limit;
}

/** `connections`: of a life; the journal knows nothing of it. */
export type Limit = 'calls' | 'sequences' | 'sampled_tokens' | 'connections';

/** A refusal on its way to who answers. */
export class Refused extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal) {
    super(refusal.message);
    this.refusal = refusal;
  }
}

export const badRequest = (
  message: string,
  { param, code = 'invalid_request' }: { param?: string; code?: string } = {},
): Refused => new Refused({ status: 400, code, message, ...(param !== undefined && { param }) });

/** Programs look for OpenAI's code and words, and shorten the conversation. */
export const contextFull = ({
  tokens,
  most,
}: {
  tokens: number | string;
  most: number;
}): Refusal => ({
  status: 400,
  code: 'context_length_exceeded',
  message: `This model's maximum context length is ${most} tokens. However, your messages resulted in ${tokens} tokens. Please reduce the length of the messages.`,
  param: 'messages',
});

/** Never 429, which clients repeat. */
export const limitReached = (limit: Limit, most: number): Refusal => ({
  status: 400,
  code: 'rollout_limit',
  message: `this rollout's limit of ${most} ${limit.replace('_', ' ')} is reached: end the program`,
  limit,
});

/** As the journal has it. */
export const limitIn = ({ limit }: Refusal): { limit?: Exclude<Limit, 'connections'> } =>
  limit === undefined || limit === 'connections' ? {} : { limit };

const TYPES: Partial<Record<Refusal['status'], string>> = {
  401: 'authentication_error',
  404: 'not_found_error',
  500: 'server_error',
  503: 'server_error',
};

/** OpenAI's body of an error, which is also the answer where no dialect is. */
export const openaiError = ({ status, code, message, param }: Refusal) => ({
  status,
  body: {
    error: {
      message,
      type: TYPES[status] ?? 'invalid_request_error',
      param: param ?? null,
      code,
    },
  },
});
