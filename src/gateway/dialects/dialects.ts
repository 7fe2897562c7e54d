import { openaiError } from '../request/refusals.js';
import { completion, firstEvent, lastEvents, newsEvents } from './chat/chat-answer.js';
import { readChatRequest } from './chat/chat-request.js';
import type { Dialect, DialectName } from './dialect.js';
import { response } from './responses/responses-answer.js';
import { readResponsesRequest } from './responses/responses-request.js';

const data = (event: unknown): string => `data: ${JSON.stringify(event)}\n\n`;

export const CHAT = {
  name: 'chat/completions',
  read: readChatRequest,
  refusal: openaiError,
  answer: completion,
  stream: {
    first: (answering) => data(firstEvent(answering)),
    news: (answering, news) => newsEvents(answering, news).map(data).join(''),
    last: (answering, asked) =>
      [...lastEvents(answering, asked).map(data), 'data: [DONE]\n\n'].join(''),
  },
} satisfies Dialect;

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

export const DIALECTS: Readonly<Record<DialectName, Dialect>> = {
  'chat/completions': CHAT,
  responses: RESPONSES,
};

/** null: nobody is answered there. */
export const dialectAt = (path: string): Dialect | null =>
  Object.values(DIALECTS).find(({ name }) => path === `/v1/${name}`) ?? null;
