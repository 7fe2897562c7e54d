import { z } from 'zod';
import { problemsOf } from '../../model/problems.js';
import { describeError } from '../../platform/errors.js';
import { shapeProblem } from '../../platform/json/depth.js';
import type { ForeignMembers } from '../../platform/json/kept.js';
import { readJson } from '../../platform/json/kept.js';
import { isRecord } from '../../platform/json/object.js';
import { utf8Text } from '../../platform/utf8-text.js';
import { badRequest } from '../request/refusals.js';
import type { AgentRequest, RequestLimits } from '../request/request.js';
import { MOST_TOOLS } from '../request/request.js';
import type { Dialect } from './dialect.js';

export type Body = Record<string, unknown>;

/** `foreign`: members whose digits and order of names stay as they came. `requestIn` throws a `Refused`. */
export const reader =
  (
    foreign: ForeignMembers,
    requestIn: (body: Body, limits: RequestLimits) => AgentRequest,
  ): Dialect['read'] =>
  (body, limits) =>
    requestIn(readBody(body, foreign), limits);

function readBody(body: Buffer, foreign: ForeignMembers): Body {
  const value = parsed(body, foreign);
  if (!isRecord(value)) throw badRequest(`expected a JSON object as the body, got ${typeof value}`);
  return value;
}

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

/** Some clients write null for what they leave out. */
export const nullish = <T extends z.ZodType>(schema: T) =>
  schema.nullish().transform((value) => value ?? undefined);

export const FIELDS = {
  model: nullish(z.string().max(256)),
  tools: nullish(z.array(z.unknown()).max(MOST_TOOLS)),
  stream: nullish(z.boolean()),
};

/** Throws a `Refused` that names the field. */
export function checked<T extends z.ZodType>(
  schema: T,
  { value, where }: { value: unknown; where: string },
): z.output<T> {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  const [problem] = problemsOf(result.error, value);
  const field = problem?.where === '(input)' ? '' : (problem?.where ?? '');
  const separator = where === '' || field === '' || field.startsWith('[') ? '' : '.';
  const param = `${where}${separator}${field}`;
  throw badRequest(`${param}: ${problem?.what ?? 'malformed'}`, { param });
}
