import { shapeProblem } from '../platform/json/depth.js';
import type { ForeignMembers } from '../platform/json/kept.js';
import { readJson } from '../platform/json/kept.js';
import { isRecord } from '../platform/json/object.js';
import { utf8Text } from '../platform/utf8-text.js';
import { describeError } from '../platform/errors.js';
import { badRequest, Refused } from './refusals.js';

/** The object in the body of a request. Its bounds are checked before it is parsed. */
export function readBody(
  body: Buffer,
  { most, foreign }: { most: number; foreign: ForeignMembers },
): Record<string, unknown> {
  if (body.length > most) throw tooLarge(body.length, most);
  const value = parsed(body, foreign);
  if (!isRecord(value)) throw badRequest(`expected a JSON object as the body, got ${typeof value}`);
  return value;
}

const tooLarge = (bytes: number, most: number): Refused =>
  new Refused({
    status: 413,
    code: 'request_too_large',
    message: `expected a body of at most ${most} bytes, got ${bytes}`,
  });

function parsed(body: Buffer, foreign: ForeignMembers): unknown {
  let text: string;
  try {
    text = utf8Text(body);
  } catch (error) {
    throw badRequest(`the body: ${describeError(error)}`);
  }
  const problem = shapeProblem(text);
  if (problem !== null) throw badRequest(`the body: ${problem}`);
  try {
    return readJson(text, foreign);
  } catch (error) {
    throw badRequest(`expected JSON as the body: ${describeError(error)}`);
  }
}
