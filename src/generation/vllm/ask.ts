import type { z } from 'zod';
import type { Bound } from '../weight-control.js';
import type { Http } from './http.js';
import { read } from './replies.js';

export interface ServerQuestion<T> extends Bound {
  schema: z.ZodType<T>;
  body?: object;
}

export type Ask = ReturnType<typeof createAsk>;

/** Calls of one server, by method and path. */
export function createAsk({ call }: Http, replica: string) {
  const raw = (name: string, { within_ms, signal, body }: Bound & { body?: object }) => {
    const [method = '', path = ''] = name.split(' ');
    return call({
      method: method === 'GET' ? 'GET' : 'POST',
      path,
      timeout_ms: Math.max(1, within_ms),
      signal,
      // Belongs to no rollout.
      ...(path.startsWith('/v1/') && { session_id: 'weights-probe' }),
      ...(body !== undefined && { body }),
    });
  };
  const ask = async <T>(name: string, { schema, ...given }: ServerQuestion<T>): Promise<T> =>
    read(schema, { reply: await raw(name, given), site: { replica, call: name } });
  return { raw, ask };
}
