import { randomBytes } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

/** One request and its response. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  /** Without the query. */
  path: string;
  /** `X-Session-ID`: the rollout, for this project's client. */
  session_id: string | null;
}

/** An answer other than 200. Thrown where the reason is found, sent by the server. */
export class Refusal extends Error {
  readonly status: number;
  readonly body: unknown;
  readonly headers: Readonly<Record<string, string>>;
  readonly event: object | undefined;

  constructor({ status, body, headers, event }: RefusalFacts) {
    super(`HTTP ${status}`);
    this.name = 'Refusal';
    this.status = status;
    this.body = body;
    this.headers = headers ?? {};
    this.event = event;
  }
}

export interface RefusalFacts {
  status: number;
  body: unknown;
  headers?: Record<string, string>;
  /** What a stream that has begun says in place of the body. */
  event?: object | undefined;
}

export function sendRefusal(exchange: Exchange, refusal: Refusal): void {
  if (refusal.event === undefined || refusal.status !== 200) {
    sendJson(exchange, refusal);
    return;
  }
  const text = `data: ${JSON.stringify(refusal.event)}\n\ndata: [DONE]\n\n`;
  sendText(exchange, { status: 200, type: 'text/event-stream; charset=utf-8', text });
}

/** vLLM's error object. */
export function errorBody(facts: {
  message: string;
  type: string;
  param: string | null;
  code: number;
}): unknown {
  const { message, type, param, code } = facts;
  return { error: { message, type, param, code } };
}

/** 400 as vLLM's own checks answer it; pydantic's differ (`validationRefusal`). */
export function badRequest(message: string, param: string | null = null): Refusal {
  const body = errorBody({ message, type: 'BadRequestError', param, code: 400 });
  return new Refusal({ status: 400, body });
}

export function headerOf(request: IncomingMessage, name: string): string | null {
  const value = request.headers[name];
  return typeof value === 'string' && value !== '' ? value : null;
}

/** Headers that real servers send on every response; the request id comes back or is made up. */
export function commonHeaders({ request }: Exchange): Record<string, string> {
  return {
    server: 'uvicorn',
    vary: 'Origin',
    'x-request-id': headerOf(request, 'x-request-id') ?? randomBytes(16).toString('hex'),
  };
}

export interface Reply {
  status: number;
  body: unknown;
  headers?: Readonly<Record<string, string>>;
}

export function sendJson(exchange: Exchange, { status, body, headers }: Reply): void {
  sendText(exchange, {
    status,
    type: 'application/json',
    text: JSON.stringify(body),
    headers: headers ?? {},
  });
}

export interface TextReply {
  status: number;
  /** Content type; null for none. */
  type: string | null;
  text: string;
  headers?: Readonly<Record<string, string>>;
}

export function sendText(exchange: Exchange, { status, type, text, headers }: TextReply): void {
  exchange.response.writeHead(status, {
    ...commonHeaders(exchange),
    ...(type === null ? {} : { 'content-type': type }),
    'content-length': String(Buffer.byteLength(text)),
    ...headers,
  });
  exchange.response.end(text);
}

const MAX_BODY_BYTES = 64 * 2 ** 20;

/** The whole body. Rejects if the client leaves before its end, or sends more than 64 MiB. */
export async function readText({ request }: Exchange): Promise<string> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of request as AsyncIterable<Buffer>) {
    size += part.length;
    if (size > MAX_BODY_BYTES) throw badRequest(`The body is longer than ${MAX_BODY_BYTES} bytes`);
    parts.push(part);
  }
  return Buffer.concat(parts).toString();
}
