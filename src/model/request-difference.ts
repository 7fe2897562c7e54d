import { KeptJson, writeJson } from '../platform/json/kept.js';
import { BatchRequest, isFilledIn } from './batch-request.js';
import { fieldsIn, isForeignObject } from './foreign-object.js';
import { invalidBatchRequest, preview } from './problems.js';
import { problemsWithHints } from './unknown-fields.js';

/** The first field in which two requests differ. `where` is empty if they differ as a whole. */
export interface Difference {
  where: string;
  before: unknown;
  now: unknown;
}

/** Depth first, in the order of the schema's fields. */
export function firstDifference(before: unknown, now: unknown): Difference | null {
  const [old, own] = [fieldsOf(before), fieldsOf(now)];
  if (old === null || own === null || Array.isArray(old) !== Array.isArray(own))
    return writeJson(before) === writeJson(now) ? null : { where: '', before, now };
  for (const key of new Set([...Object.keys(old), ...Object.keys(own)])) {
    const inner = firstDifference(old[key], own[key]);
    if (inner !== null)
      return { ...inner, where: inner.where === '' ? key : `${key}.${inner.where}` };
  }
  return null;
}

/** null: a value without fields, or a list of others. */
function fieldsOf(value: unknown): Record<string, unknown> | null {
  if (value instanceof KeptJson) return isForeignObject(value) ? fieldsIn(value) : null;
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : null;
}

/** With the defaults of both filled in; null: they are the same. Throws `InvalidBatchRequest` if ours does not parse. */
export function differenceBetween(theirs: unknown, ours: unknown): string | null {
  if (isFilledIn(ours)) return textOfDifference(firstDifference(theirs, ours));
  const parsed = BatchRequest.safeParse(ours);
  if (!parsed.success)
    throw invalidBatchRequest(
      problemsWithHints(parsed.error, { schema: BatchRequest, input: ours }),
    );
  return textOfDifference(
    firstDifference(BatchRequest.safeParse(theirs).data ?? theirs, parsed.data),
  );
}

function textOfDifference(difference: Difference | null): string | null {
  if (difference === null) return null;
  const { where, before, now } = difference;
  return `${where === '' ? 'the request' : where}: ${preview(before)} there, ${preview(now)} here`;
}
