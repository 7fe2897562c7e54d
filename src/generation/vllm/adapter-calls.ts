import { z } from 'zod';
import { listOf } from '../../model/untrusted.js';
import type { Bound, WeightControl } from '../weight-control.js';
import type { Ask } from './ask.js';
import { ModelName, refusalOf, routeMissing } from './replies.js';
import { refusalFault } from './wire-faults.js';

/** Adapters beside the weights of an engine (captures 223 to 234); they answer in plain text. */

const LOAD = '/v1/load_lora_adapter';
const UNLOAD = '/v1/unload_lora_adapter';
export const ADAPTER_ROUTES = [LOAD, UNLOAD];

/** An adapter has a parent (capture 227). */
const Models = z.object({ data: listOf(z.object({ id: ModelName, parent: ModelName.nullish() })) });

export function adapterCalls({
  replica,
  ask,
  raw,
}: Ask & { replica: string }): Pick<WeightControl, 'adapters' | 'loadAdapter' | 'unloadAdapter'> {
  const order = async (
    path: string,
    { body, done, bound }: { body: object; done: readonly number[]; bound: Bound },
  ): Promise<void> => {
    const reply = await raw(`POST ${path}`, { ...bound, body });
    if (!done.includes(reply.status))
      throw refusalFault(refusalOf(reply), { replica, call: `POST ${path}` });
  };
  return {
    adapters: async (bound) => {
      const { data } = await ask('GET /v1/models', { schema: Models, ...bound });
      return data.flatMap(({ id, parent }) => (parent == null ? [] : [id]));
    },
    loadAdapter: ({ name, path }, bound) =>
      order(LOAD, { body: { lora_name: name, lora_path: path }, done: [200], bound }),
    // 404: it is not there.
    unloadAdapter: (name, bound) =>
      order(UNLOAD, { body: { lora_name: name }, done: [200, 404], bound }),
  };
}

/** A GET to a route that accepts only POST gives 405; without the route it is 404 (capture 177). */
export async function hasAdapterRoute(
  { raw }: Ask,
  { path, bound, replica }: { path: string; bound: Bound; replica: string },
): Promise<boolean> {
  const reply = await raw(`GET ${path}`, bound);
  if (reply.status === 404 || routeMissing(reply) !== null) return false;
  if (reply.status === 405) return true;
  throw refusalFault(refusalOf(reply), { replica, call: `GET ${path}` });
}
