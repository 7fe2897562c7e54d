import type { ServerResponse } from 'node:http';
import type { Dialect, HowAsked } from '../dialects/dialect.js';
import type { Refusal } from './refusals.js';

const JSON_TYPE = 'application/json; charset=utf-8';

export const STREAM_HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache',
  'x-accel-buffering': 'no',
};

export function sendJson(response: ServerResponse, body: unknown): void {
  response.writeHead(200, { 'content-type': JSON_TYPE }).end(JSON.stringify(body));
}

/** The same request to the same address of another worker, where the client's own socket is seen. */
export function sendElsewhere(response: ServerResponse, location: string): void {
  response.writeHead(307, { location, 'content-length': 0 }).end();
}

/** Behind these, nothing on this connection gets another answer. */
const LAST: ReadonlySet<number> = new Set([401, 408, 409, 410, 413, 415]);
const RETRY_AFTER_S = 5;

/** In the dialect's words. Clients repeat some statuses by themselves, unless they are told not to. */
export function sendRefusal(
  response: ServerResponse,
  {
    refusal,
    dialect,
    asked,
  }: { refusal: Refusal; dialect: Pick<Dialect, 'refusal'>; asked?: HowAsked },
): void {
  const { status, body: said } = dialect.refusal(refusal, asked);
  const isStream = typeof said === 'string';
  const body = isStream ? said : JSON.stringify(said);
  if (response.headersSent) {
    response.end(isStream ? body : `data: ${body}\n\n`);
    return;
  }
  const isAgain = status === 503;
  response.writeHead(status, {
    ...(isStream ? STREAM_HEADERS : { 'content-type': JSON_TYPE }),
    'x-should-retry': String(isAgain),
    ...(isAgain && { 'retry-after': String(RETRY_AFTER_S) }),
    ...(LAST.has(status) && { connection: 'close' }),
  });
  response.end(body);
}
