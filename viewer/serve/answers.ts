import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { SERVED_POLICY } from '../shell.js';

/** Answers, whole or line by line. All have the same headers. */

const HEADERS = {
  'content-security-policy': SERVED_POLICY,
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-store',
  'cross-origin-resource-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
};

const TYPES = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  text: 'text/plain; charset=utf-8',
  json: 'application/json',
  lines: 'application/x-ndjson',
  events: 'text/event-stream',
};

export interface Answering {
  response: ServerResponse;
  /** The method is HEAD: headers alone. */
  is_head: boolean;
  /** Aborted when nobody listens any more. */
  signal: AbortSignal;
}

export function answer(
  { response, is_head }: Pick<Answering, 'response' | 'is_head'>,
  {
    status = 200,
    type,
    body,
    more = {},
  }: { status?: number; type: keyof typeof TYPES; body: string; more?: Record<string, string> },
): void {
  const length = String(Buffer.byteLength(body));
  response.writeHead(status, {
    ...HEADERS,
    ...more,
    'content-type': TYPES[type],
    'content-length': length,
  });
  response.end(is_head ? undefined : body);
}

export const answerJson = (to: Answering, text: string): void => {
  answer(to, { type: 'json', body: text });
};

/** A line for each, as they come; none is made that nobody has time to read. */
export async function answerLines(to: Answering, documents: AsyncIterable<unknown>): Promise<void> {
  const { response, is_head, signal } = to;
  response.writeHead(200, { ...HEADERS, 'content-type': TYPES.lines });
  if (!is_head)
    for await (const document of documents) {
      if (signal.aborted) return;
      if (!response.write(`${JSON.stringify(document)}\n`)) await drained(to);
    }
  response.end();
}

export function beginEvents({ response, is_head }: Answering): void {
  response.writeHead(200, { ...HEADERS, 'content-type': TYPES.events });
  if (is_head) response.end();
  else response.flushHeaders();
}

/** A browser asks again where a connection ends, so the page ends it, when it is told that nothing more will come. */
export const sendEvent = ({ response }: Answering, fields: string): boolean =>
  response.write(`${fields}\n\n`);

/** Or nobody listens any more. */
const drained = async ({ response, signal }: Answering): Promise<void> => {
  await once(response, 'drain', { signal }).catch(() => undefined);
};
