import { openaiError } from '../../request/refusals.js';
import type { Dialect } from '../dialect.js';
import { response } from './responses-answer.js';
import { readResponsesRequest } from './responses-request.js';

/** OpenAI's responses, as far as they are not streamed. */
export const RESPONSES: Dialect = {
  name: 'responses',
  read: readResponsesRequest,
  // Messages are called so in the other dialect.
  refusal: ({ param, ...refusal }) =>
    openaiError({
      ...refusal,
      ...(param !== undefined && { param: param === 'messages' ? 'input' : param }),
    }),
  answer: response,
  stream: null,
};
