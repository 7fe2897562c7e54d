import { z } from 'zod';
import { problemsOf } from '../../model/problems.js';
import { shapeProblem } from '../../platform/json/depth.js';
import { jsonIn } from '../../platform/json/object.js';
import type { Bound } from '../weight-control.js';
import type { Calls } from './http.js';
import type { CallSite, HttpReply } from './wire-faults.js';
import { protocolFault, refusalFault, refusalOf, serverError } from './wire-faults.js';

interface Given extends Bound {
  body?: object;
}

export interface Ask {
  /** The base URL of whom it asks, in messages. */
  replica: string;
  /** Whatever the status. */
  raw: (name: string, given: Given) => Promise<HttpReply>;
  /** Throws by status, then `ProtocolError` if the body does not match the schema. */
  ask: <T>(name: string, given: Given & { schema: z.ZodType<T> }) => Promise<T>;
  /** The same, of which nothing is kept. `done`: statuses with which it is done; default 200. */
  order: (
    name: string,
    given: Given & { schema?: z.ZodType; done?: readonly number[] },
  ) => Promise<void>;
}

/** `session_id`: of what is asked below `/v1`, where routers look for one. */
export function createAsk(
  { call }: Pick<Calls, 'call'>,
  { replica, session_id }: { replica: string; session_id?: string },
): Ask {
  const raw: Ask['raw'] = (name, { within_ms, signal, body }) => {
    const [method, path = ''] = name.split(' ');
    return call({
      method: method === 'GET' ? 'GET' : 'POST',
      path,
      timeout_ms: Math.max(1, within_ms),
      signal,
      ...(session_id !== undefined && path.startsWith('/v1/') && { session_id }),
      ...(body !== undefined && { body }),
    });
  };
  return {
    replica,
    raw,
    ask: async (name, { schema, ...given }) =>
      read(schema, { reply: await raw(name, given), site: { replica, call: name } }),
    order: async (name, { schema = z.unknown(), done = [200], ...given }) => {
      const reply = await raw(name, given);
      const site = { replica, call: name };
      if (!done.includes(reply.status)) throw refusalFault(refusalOf(reply), site);
      if (reply.status === 200) read(schema, { reply, site });
    },
  };
}

const nameOf = (characters: number): z.ZodString =>
  z.string().max(characters, `expected at most ${characters} characters`);
export const WeightLabel = nameOf(200);
export const ModelName = nameOf(1000);

/** The JSON body of a 200; otherwise undefined. */
export const jsonOf = ({ status, text }: Pick<HttpReply, 'status' | 'text'>): unknown =>
  status !== 200 || shapeProblem(text) !== null ? undefined : jsonIn(text);

/**
 * A server that accepts connections and never answers is reported within the 5 s in which a wait must become visible.
 */
const CONTROL_TIMEOUT_MS = 3000;
const PAUSE_QUESTION_TIMEOUT_MS = 5000;

export const soon = (signal: AbortSignal): Bound => ({ within_ms: CONTROL_TIMEOUT_MS, signal });

/** Of questions that many share, whose signals end none. */
export const patience = (): Bound => ({
  within_ms: PAUSE_QUESTION_TIMEOUT_MS,
  signal: new AbortController().signal,
});

/** A server that does not answer is taken for one without the route (capture 194). */
export const quietly = ({ raw }: Pick<Ask, 'raw'>): Pick<Ask, 'raw'> => ({
  raw: (name, given) => raw(name, given).catch(() => ({ status: 0, text: '', header: () => null })),
});

interface Replied {
  reply: HttpReply;
  site: CallSite;
}

export function read<T>(schema: z.ZodType<T>, { reply, site }: Replied): T {
  if (reply.status !== 200) throw refusalFault(refusalOf(reply), site);
  return checked(schema, { value: jsonOf(reply), site });
}

/** Throws a `ProtocolError` that names the field. */
export function checked<T>(
  schema: z.ZodType<T>,
  { value, site }: { value: unknown; site: CallSite },
): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [problem] = problemsOf(parsed.error, value);
  throw protocolFault(`${problem?.where ?? 'body'}: ${problem?.what ?? 'malformed'}`, site);
}

/** What a server answers with status 200 for a route that it does not have; null: it has it. */
export function routeMissing(reply: HttpReply): string | null {
  const body = jsonOf(reply);
  const isError = typeof body === 'object' && body !== null && 'error' in body;
  return isError ? serverError(reply.text) : null;
}
