import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import type { ServiceDescription } from '../generation-service.js';
import type { Bound } from '../weight-control.js';
import type { Ask } from './ask.js';
import { ModelName } from './ask.js';
import { rejected } from './wire-faults.js';

const MAX_MODELS = 10_000;

/** An adapter has a parent, and no `max_model_len` of its own (captures 102 and 227). */
const Models = z.object({
  data: z
    .custom<unknown[]>(
      (data) => !Array.isArray(data) || data.length <= MAX_MODELS,
      `expected at most ${MAX_MODELS} models, got more`,
    )
    .pipe(
      z
        .array(
          z.object({
            id: ModelName,
            parent: ModelName.nullish(),
            max_model_len: z.number().nullish(),
            owned_by: z.string().nullish(),
          }),
        )
        .min(1, 'expected at least one model'),
    ),
});

export type ServedModel = z.infer<typeof Models>['data'][number];

/** The owners that the list names, which are kinds of a service. */
const KINDS: readonly unknown[] = ['vllm', 'sglang'];

/**
 * The first one is the default. Also shows whether the key is right: the key of engines covers paths below `/v1`.
 * `GenerationRejected` if an engine of another `kind` answers.
 */
export async function servedModels(
  { ask, replica }: Pick<Ask, 'ask' | 'replica'>,
  { kind, ...bound }: Bound & { kind: string },
): Promise<ServedModel[]> {
  const { data } = await ask('GET /v1/models', { schema: Models, ...bound });
  const other = data[0]?.owned_by;
  if (other === kind || !KINDS.includes(other)) return data;
  throw rejected(
    replica,
    `expected an engine of kind ${kind}, got one of kind ${other}; a service has engines of one kind: give it a service of its own`,
  );
}

/** An adapter has a parent (capture 227). */
export const adaptersIn = (served: readonly ServedModel[]): string[] =>
  served.flatMap(({ id, parent }) => (parent == null ? [] : [id]));

/** A refused or malformed answer gives no information. */
export async function unlessRefused<T>(asked: () => Promise<T>): Promise<T | null> {
  try {
    return await asked();
  } catch (error) {
    if (error instanceof Fault && error.type !== 'GenerationUnavailable') return null;
    throw error;
  }
}

/** An adapter runs in its base model's engine and has that model's limit. */
export function withLimits(served: readonly ServedModel[]): ServiceDescription['models'] {
  const limits = new Map(served.map(({ id, max_model_len }) => [id, max_model_len ?? null]));
  return served.map(({ id, parent, max_model_len }) => ({
    id,
    max_model_len: max_model_len ?? (parent == null ? null : (limits.get(parent) ?? null)),
  }));
}
