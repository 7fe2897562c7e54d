import { z } from 'zod';
import { problemsOf } from '../../model/problems.js';
import { shapeProblem } from '../../platform/json/depth.js';
import type { HttpReply } from './http.js';
import type { CallSite, Refusal } from './wire-faults.js';
import { protocolFault, readServerError, refusalFault } from './wire-faults.js';

/** Reads answers that are not streams. */

const nameOf = (characters: number): z.ZodString =>
  z.string().max(characters, `expected at most ${characters} characters`);
/** The label of weights, in each chunk of a journal and in each row. */
export const WeightLabel = nameOf(200);
/** A model's name, in each request and each journal. */
export const ModelName = nameOf(1000);

/** The JSON body of a 200; otherwise undefined. */
export function jsonOf({ status, text }: HttpReply): unknown {
  if (status !== 200 || shapeProblem(text) !== null) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

/** Throws by status, then `ProtocolError` if the body does not match the schema. */
export function read<T>(
  schema: z.ZodType<T>,
  { reply, site }: { reply: HttpReply; site: CallSite },
): T {
  if (reply.status !== 200) throw refusalFault(refusalOf(reply), site);
  const body = jsonOf(reply);
  const parsed = schema.safeParse(body);
  if (parsed.success) return parsed.data;
  const [problem] = problemsOf(parsed.error, body);
  throw protocolFault(`${problem?.where ?? 'body'}: ${problem?.what ?? 'malformed'}`, site);
}

/** What a server answers with status 200 for a route that it does not have; null: it has it. */
export function routeMissing(reply: HttpReply): string | null {
  const body = jsonOf(reply);
  const isError = typeof body === 'object' && body !== null && 'error' in body;
  return isError ? readServerError(reply.text).message : null;
}

export function refusalOf({ status, text, header }: HttpReply): Refusal {
  const { message, param } = readServerError(text);
  return { status, message: `${status} ${message}`, param, header };
}
