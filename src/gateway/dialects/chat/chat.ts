import { openaiError } from '../../request/refusals.js';
import type { Dialect } from '../dialect.js';
import { completion, firstEvent, lastEvents, newsEvents } from './chat-answer.js';
import { readChatRequest } from './chat-request.js';

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
