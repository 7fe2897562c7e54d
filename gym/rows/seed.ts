import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../../src/platform/json/lossless.js';
import { isObject, jsonNumber, parseJson } from '../../src/platform/json/lossless.js';
import { dumpJson } from '../../src/platform/python/json.js';
import { reprOf } from '../../src/platform/python/repr.js';

/** The row whose `metadata.extra_body`, a JSON text, has the seed; what else the text says stays. Nothing of `row` changes. */
export function withSeed(
  row: JsonObject,
  { seed, where }: { seed: number; where: string },
): JsonObject {
  const params = row['responses_create_params'];
  const base = isObject(params) ? params : {};
  const metadata = base['metadata'] === undefined ? {} : base['metadata'];
  const bad = (what: string, got: Json): Error =>
    new Error(
      `Malformed row ${where}: num_repeats_add_seed: responses_create_params.${what}, got ${reprOf(got)}`,
    );
  if (!isObject(metadata)) throw bad('metadata: expected an object', metadata);
  const text = metadata['extra_body'] ?? '{}';
  if (typeof text !== 'string') throw bad('metadata.extra_body: expected JSON as text', text);
  let body: Json;
  try {
    body = parseJson(text);
  } catch (error) {
    throw bad(`metadata.extra_body: expected JSON as text (${describeError(error)})`, text);
  }
  if (!isObject(body)) throw bad('metadata.extra_body: expected a JSON object as text', text);
  const extra_body = dumpJson({ ...body, seed: jsonNumber(seed) });
  return {
    ...row,
    responses_create_params: { ...base, metadata: { ...metadata, extra_body } },
  };
}
