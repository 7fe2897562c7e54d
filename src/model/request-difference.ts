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
function firstDifference(before: unknown, now: unknown): Difference | null {
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

/** Earlier versions stored data of others as JavaScript writes it: `1` for `1.0`. */
const isSame = (before: unknown, now: unknown): boolean =>
  writeJson(before) === writeJson(now) ||
  (!(before instanceof KeptJson) &&
    now instanceof KeptJson &&
    writeJson(before) === writeJson(now.plain));

/**
 * The first field in which a request differs from the one that its id names. `min_valid` was 0 where nobody said it in
 * earlier releases, and is 1 since: their batches continue.
 */
export function requestDifference(theirs: unknown, ours: object): Difference | null {
  const isDefault = (request: unknown): request is Record<string, unknown> =>
    isObject(request) && (request['min_valid'] === 0 || request['min_valid'] === 1);
  const before =
    isDefault(theirs) && isDefault(ours) ? { ...theirs, min_valid: ours['min_valid'] } : theirs;
  return firstDifference(before, ours);
}

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
  const difference = requestDifference(BatchRequest.safeParse(theirs).data ?? theirs, parsed.data);
  if (difference === null) return null;
  const { where, before, now } = difference;
  return `${where === '' ? 'the request' : where}: ${preview(before)} there, ${preview(now)} here`;
}
