import { createHmac, randomUUID } from 'node:crypto';
import { once } from 'node:events';
import http from 'node:http';
import type { AddressInfo } from 'node:net';
import { text as textOf } from 'node:stream/consumers';
import { z } from 'zod';

/**
 * A Gym resources server of the Gymnasium style that behaves like upstream's: a signed cookie that outlives the process
 * that signed it, sessions that do not, and a `KeyError` or a `detail` for an unknown session. The game is to give the
 * row's `answers` in order; each right one is worth 1, and the last one ends it.
 */
export interface GymnasiumServer {
  url: string;
  /** All sessions, in the order of their resets. */
  sessions: readonly GymSession[];
  /** Bodies in the order of arrival. */
  bodies: readonly { path: string; body: Record<string, unknown> }[];
  /** For the next requests, one after the other: see `Trouble`. */
  trouble: Trouble[];
  /** Cuts all connections, stops listening, and drops the sessions. */
  stop: () => Promise<void>;
  /** At the same port. */
  start: () => Promise<void>;
}

export interface GymSession {
  id: string;
  /** Texts that were played, in order. */
  played: string[];
  /** Keys of the steps that were answered from the cache. */
  repeated: string[];
  /** Calls of `/close`. */
  closes: number;
  /** Sent at the end of the game. */
  done: boolean;
}

/** The outcome of a step: played and not answered, not played and not answered, or answered with this. */
export type Trouble = 'cut_after' | 'cut_before' | { status: number; body: unknown };

export interface GymnasiumOptions {
  step_idempotency?: boolean;
  explicit_close?: boolean;
  /** The answer for an unknown session. */
  unknown?: 'key_error' | 'detail' | 'no_active_episode';
  /** Before each step is played. */
  step_ms?: number;
  /** Added to the observation of each step. */
  tool_outputs?: unknown[];
  truncate_at?: number;
}

const Row = z.looseObject({
  responses_create_params: z.looseObject({
    input: z.array(z.strictObject({ role: z.string(), content: z.string() })),
  }),
  answers: z.array(z.string()),
});

/** As `NeMoGymResponse` requires it. */
const Step = Row.extend({
  response: z.looseObject({
    id: z.string(),
    created_at: z.number(),
    model: z.string(),
    object: z.literal('response'),
    output: z.tuple([
      z.strictObject({
        id: z.string(),
        content: z.tuple([
          z.strictObject({
            annotations: z.array(z.never()),
            text: z.string(),
            type: z.literal('output_text'),
          }),
        ]),
        role: z.literal('assistant'),
        status: z.literal('completed'),
        type: z.literal('message'),
      }),
    ]),
    parallel_tool_calls: z.boolean(),
    tool_choice: z.string(),
    tools: z.array(z.unknown()),
  }),
  _ng_step_request_id: z.string().min(1).max(128).optional(),
});

interface Game extends GymSession {
  answers: string[];
  cache: { request_id: string; answer: unknown } | null;
}

const COOKIE = 'Recital___recital';
const sign = (payload: string): string =>
  createHmac('sha256', COOKIE).update(payload).digest('hex');

/** Payload, time and signature, as in Starlette: another text each time, for the same session. */
function cookieOf(id: string, at: number): string {
  const payload = Buffer.from(JSON.stringify({ session_id: id })).toString('base64');
  return `${payload}.${at}.${sign(`${payload}.${at}`)}`;
}

function sessionIn(header = ''): string | null {
  const [, value = ''] = new RegExp(`${COOKIE}=([^;]+)`).exec(header) ?? [];
  const [payload = '', at = '', signature] = value.split('.');
  if (signature !== sign(`${payload}.${at}`)) return null;
  return (JSON.parse(Buffer.from(payload, 'base64').toString()) as { session_id: string })
    .session_id;
}

/** A status that ends a request: FastAPI's `HTTPException`, or Gym's `repr` of any other error. */
class Answered extends Error {
  readonly status: number;
  readonly body: unknown;
  constructor(status: number, body: unknown) {
    super(String(status));
    this.status = status;
    this.body = body;
  }
}

export async function startGymnasiumServer(
  options: GymnasiumOptions = {},
): Promise<GymnasiumServer> {
  const sessions: Game[] = [];
  const bodies: { path: string; body: Record<string, unknown> }[] = [];
  const trouble: Trouble[] = [];
  const known = new Map<string, Game>();
  let server: http.Server | null = null;
  let port = 0;
  let cookies = 0;

  const answer = async (request: http.IncomingMessage, response: http.ServerResponse) => {
    const path = request.url ?? '';
    const body = JSON.parse((await textOf(request)) || '{}') as Record<string, unknown>;
    bodies.push({ path, body });
    const id = sessionIn(request.headers.cookie) ?? randomUUID();
    const send = (status: number, value: unknown): void => {
      response.setHeader('set-cookie', `${COOKIE}=${cookieOf(id, cookies++)}; Path=/; HttpOnly`);
      response.setHeader('content-type', 'application/json').writeHead(status);
      response.end(JSON.stringify(value));
    };
    try {
      send(200, await play({ path, body, id }, response));
    } catch (error) {
      if (error instanceof Answered) send(error.status, error.body);
      else send(422, { detail: String(error) });
    }
  };

  const play = async (
    { path, body, id }: { path: string; body: Record<string, unknown>; id: string },
    response: http.ServerResponse,
  ): Promise<unknown> => {
    switch (path) {
      case '/reset': {
        const { answers } = Row.parse(body);
        const game: Game = {
          id,
          answers,
          played: [],
          repeated: [],
          closes: 0,
          done: false,
          cache: null,
        };
        sessions.push(game);
        known.set(id, game);
        const { explicit_close = false, step_idempotency = false } = options;
        return {
          observation: ['Recite.', ...answers.map((line) => `Say: ${line}`)].join('\n'),
          info: {
            supports_explicit_close: explicit_close,
            supports_step_idempotency: step_idempotency,
          },
        };
      }
      case '/step': {
        const step = Step.parse(body);
        const what = trouble.shift();
        if (options.step_ms !== undefined)
          await new Promise((resolve) => setTimeout(resolve, options.step_ms));
        if (what === 'cut_before') return response.destroy();
        if (typeof what === 'object') throw new Answered(what.status, what.body);
        const game = known.get(id);
        if (game === undefined) return unknownSession(id, options);
        const answered = stepOf(game, { step, options });
        return what === 'cut_after' ? response.destroy() : answered;
      }
      case '/close': {
        const game = sessions.find((session) => session.id === id);
        if (game === undefined) throw new Answered(500, `KeyError('${id}')`);
        game.closes += 1;
        known.delete(id);
        return {};
      }
      default:
        throw new Answered(404, { detail: 'Not Found' });
    }
  };

  const start = async (): Promise<void> => {
    server = http.createServer((request, response) => {
      void answer(request, response).catch(() => response.destroy());
    });
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    ({ port } = server.address() as AddressInfo);
  };
  const stop = async (): Promise<void> => {
    if (server === null) return;
    const closed = once(server, 'close');
    server.close();
    server.closeAllConnections();
    server = null;
    known.clear();
    await closed;
  };
  await start();
  return { url: `http://127.0.0.1:${port}`, sessions, bodies, trouble, start, stop };
}

function unknownSession(id: string, { unknown = 'key_error' }: GymnasiumOptions): unknown {
  if (unknown === 'key_error') throw new Answered(500, `KeyError('${id}')`);
  if (unknown === 'detail')
    throw new Answered(400, { detail: 'Session not initialized. Call /reset first.' });
  const info = { error: 'no_active_episode' };
  return { observation: null, reward: 0, terminated: false, truncated: true, info };
}

function stepOf(
  game: Game,
  { step, options }: { step: z.infer<typeof Step>; options: GymnasiumOptions },
): unknown {
  const text = step.response.output[0].content[0].text;
  const request_id = step._ng_step_request_id ?? null;
  if ((request_id !== null) !== (options.step_idempotency === true))
    throw new Answered(422, { detail: `unexpected _ng_step_request_id ${String(request_id)}` });
  if (request_id !== null && game.cache?.request_id === request_id) {
    game.repeated.push(text);
    return game.cache.answer;
  }
  const reward = text.trim() === game.answers[game.played.length] ? 1 : 0;
  game.played.push(text);
  const terminated = game.played.length === game.answers.length;
  game.done ||= terminated;
  const { tool_outputs } = options;
  const answer = {
    observation: terminated ? null : `${game.played.length} done\n`,
    reward,
    terminated,
    truncated: game.played.length === options.truncate_at,
    info: tool_outputs === undefined ? {} : { tool_outputs },
  };
  if (request_id !== null) game.cache = { request_id, answer };
  return answer;
}
