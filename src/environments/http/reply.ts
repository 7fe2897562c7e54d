import type { z } from 'zod';
import { shapeProblem } from '../../platform/json/depth.js';
import { readJson, type Foreign } from '../../platform/json/kept.js';
import type { Reply } from './call.js';
import { rejected, rejectedFields } from '../rejections.js';

/**
 * Python writes NaN and Infinity into JSON. They are refused here, and the parser's text shows them. What is `foreign` in
 * the reply comes back as it came.
 */
export function parseJson(
  { request, text }: Pick<Reply, 'request' | 'text'>,
  { at, foreign = {} }: { at: string; foreign?: Foreign },
): unknown {
  const refuse = (what: string): Error =>
    rejected({ subject: `${request} answered`, at, problems: [{ where: '(body)', what }] });
  const problem = shapeProblem(text);
  if (problem !== null) throw refuse(problem);
  try {
    return readJson(text, foreign);
  } catch (error) {
    throw refuse(`expected JSON, got ${text === '' ? 'an empty body' : String(error)}`);
  }
}

/** Parses a reply; throws `EnvironmentRejected` that names each field, what was expected and what came. */
export function readReply<T extends z.ZodType>(
  reply: Pick<Reply, 'request' | 'text'>,
  { schema, ...how }: { schema: T; at: string; foreign?: Foreign },
): z.infer<T> {
  const input = parseJson(reply, how);
  const { data, error } = schema.safeParse(input);
  if (error === undefined) return data;
  throw rejectedFields({ subject: `${reply.request} answered`, at: how.at, error, input });
}
