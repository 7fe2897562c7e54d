import { z } from 'zod';
import { FiniteNumbers } from '../../model/untrusted.js';
import type { EnvironmentMessage } from '../environment.js';
import type { HttpCall, Reply } from '../http/call.js';
import { readReply } from '../http/reply.js';
import { rejected } from '../rejections.js';

/** The score of a conversation. Throws the faults of a step. */
export type Score = (
  messages: EnvironmentMessage[],
  context: Pick<HttpCall, 'signal' | 'share'> & { headers: Record<string, string> },
) => Promise<number>;

interface Wire {
  call: (call: HttpCall) => Promise<Reply>;
  /** The service's URL. */
  at: string;
}

const Scores = z.strictObject({ scores: FiniteNumbers });

/** `POST <url>` with `{"message_logs": [[{role, content}]]}`, answered by `{"scores": [number]}`. */
export function createPlainScore({ call, at }: Wire): Score {
  return async (messages, { headers, signal, share }) => {
    const body = { message_logs: [messages] };
    const request = { body, headers, signal, share };
    const reply = await call({ method: 'POST', path: '', ...request });
    const { scores } = readReply(reply, { schema: Scores, at });
    const [score] = scores;
    if (score !== undefined && scores.length === 1) return score;
    const what = `expected 1, one per message log, got ${scores.length}`;
    throw rejected({
      subject: `${reply.request} answered`,
      at,
      problems: [{ where: 'scores', what }],
    });
  };
}

/** vLLM's answer has more fields; these are read. One class, since a reward model has a single output. */
const Classified = z.looseObject({
  data: z.tuple([
    z.looseObject({
      probs: z.tuple([z.number()], {
        error: 'expected one score, that of a model with a single label',
      }),
    }),
  ]),
});

/**
 * vLLM's `POST <url>/classify`, one conversation per request, rendered by the chat template of the model.
 * `use_activation: false` asks for the score itself: its sigmoid is almost flat for large scores.
 */
export function createVllmScore({ call, at, model }: Wire & { model: string | null }): Score {
  return async (messages, { headers, signal, share }) => {
    const body = { ...(model !== null && { model }), messages, use_activation: false };
    const request = { body, headers, signal, share };
    const reply = await call({ method: 'POST', path: '/classify', ...request });
    return readReply(reply, { schema: Classified, at }).data[0].probs[0];
  };
}
