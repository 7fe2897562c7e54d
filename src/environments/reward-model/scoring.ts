import { z } from 'zod';
import type { EnvironmentMessage } from '../environment.js';
import type { HttpCall, Reply } from '../http-call.js';
import { rejected, rejectedFields } from '../rejections.js';

/** Scores conversations, in their order. Throws the faults of a step. */
export type Score = (
  conversations: EnvironmentMessage[][],
  context: { headers: Record<string, string>; signal: AbortSignal },
) => Promise<number[]>;

interface Wire {
  call: (call: HttpCall) => Promise<Reply>;
  /** The service's URL. */
  at: string;
}

/** A busy server or a proxy before it, not the conversation: another attempt may be answered. */
const BUSY = [408, 429];

const Scores = z.strictObject({ scores: z.array(z.number()) });

/** `POST <url>` with `{"message_logs": [[{role, content}]]}`, answered by `{"scores": [number]}`, one per log. */
export function createPlainScore({ call, at }: Wire): Score {
  return async (message_logs, { headers, signal }) => {
    const body = { message_logs };
    const reply = await call({ method: 'POST', path: '', body, headers, signal, retried: BUSY });
    const { scores } = parse(reply, { schema: Scores, at });
    const expected = message_logs.length;
    if (scores.length === expected) return scores;
    const what = `expected ${expected}, one per message log, got ${scores.length}`;
    throw rejected({ subject: subjectOf(reply), at, problems: [{ where: 'scores', what }] });
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
 * `use_activation: false` asks for the score itself: the sigmoid of it would be all but flat where scores are large.
 */
export function createVllmScore({ call, at, model }: Wire & { model: string | null }): Score {
  return (conversations, { headers, signal }) =>
    Promise.all(
      conversations.map(async (messages) => {
        const body = { ...(model !== null && { model }), messages, use_activation: false };
        const request = { body, headers, signal, retried: BUSY };
        const reply = await call({ method: 'POST', path: '/classify', ...request });
        return parse(reply, { schema: Classified, at }).data[0].probs[0];
      }),
    );
}

const subjectOf = ({ request }: Reply): string => `${request} answered`;

/** Python writes NaN and Infinity into JSON: they are refused here, and the parser's text shows them. */
function parse<T extends z.ZodType>(
  reply: Reply,
  { schema, at }: { schema: T; at: string },
): z.infer<T> {
  const subject = subjectOf(reply);
  let input: unknown;
  try {
    input = JSON.parse(reply.text);
  } catch (error) {
    const what = `expected JSON, got ${reply.text === '' ? 'an empty body' : String(error)}`;
    throw rejected({ subject, at, problems: [{ where: '(body)', what }] });
  }
  const parsed = schema.safeParse(input);
  if (parsed.success) return parsed.data;
  throw rejectedFields({ subject, at, error: parsed.error, input });
}
