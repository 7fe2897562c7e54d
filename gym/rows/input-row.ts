import { describeError } from '../../src/platform/errors.js';
import type { Json, JsonObject } from '../json/exact.js';
import { isObject, parseJson } from '../json/exact.js';
import { preview } from '../../src/model/problems.js';

/** A line of a data set; `where` names file and line in errors. A blank line is not a row, as in upstream. */
export function parseInputRow(text: string, where: string): JsonObject {
  let value: Json;
  try {
    if (text.trim() === '') throw new Error('input data is empty');
    value = parseJson(text);
  } catch (error) {
    throw new Error(`Malformed JSON ${where}: ${describeError(error)}`, { cause: error });
  }
  if (!isObject(value)) {
    throw new Error(`Malformed row ${where}: expected a JSON object, got ${preview(text)}`);
  }
  return value;
}
