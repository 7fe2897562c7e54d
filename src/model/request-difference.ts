import { KeptJson, writeJson } from '../platform/json/kept.js';
import { BatchRequest } from './batch-request.js';
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
  if (
    !isText(before) &&
    !isText(now) &&
    isObject(before) &&
    isObject(now) &&
    Array.isArray(before) === Array.isArray(now)
  ) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(now)])) {
      const inner = firstDifference(before[key], now[key]);
      if (inner !== null)
        return { ...inner, where: inner.where === '' ? key : `${key}.${inner.where}` };
    }
    return null;
  }
  return isSame(before, now) ? null : { where: '', before, now };
}

const isSame = (before: unknown, now: unknown): boolean => writeJson(before) === writeJson(now);

const isText = (value: unknown): boolean => value instanceof KeptJson;

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

/**
 * How our batch request differs from the one that its id names, with the defaults of both filled in; null: it is the
 * same. Throws `InvalidBatchRequest` if ours does not parse.
 */
export function differenceBetween(theirs: unknown, ours: unknown): string | null {
  const parsed = BatchRequest.safeParse(ours);
  if (!parsed.success)
    throw invalidBatchRequest(
      problemsWithHints(parsed.error, { schema: BatchRequest, input: ours }),
    );
  const difference = firstDifference(BatchRequest.safeParse(theirs).data ?? theirs, parsed.data);
  if (difference === null) return null;
  const { where, before, now } = difference;
  return `${where === '' ? 'the request' : where}: ${preview(before)} there, ${preview(now)} here`;
}
