import type { z } from 'zod';
import { problemsOf, type Problem } from '../../src/model/problems.js';
import { errorBody, headerOf, readText, Refusal, type Exchange } from './http-exchange.js';

/** 400 in the shape of FastAPI's validation, with our own words. */
export function validationRefusal(problems: readonly Problem[], place = 'body'): Refusal {
  const lines = problems.map(({ where, what }) => `${place}.${where}: ${what}`);
  const param = `${place}.${problems[0]?.where ?? ''}`;
  const message = [`${problems.length} validation error(s):`, ...lines].join('\n  ');
  const body = errorBody({ message, type: 'Bad Request', param, code: 400 });
  return new Refusal({ status: 400, body });
}

/** The JSON of a POST as `schema` has it; unknown fields are ignored. */
export async function readBody<Schema extends z.ZodType>(
  exchange: Exchange,
  schema: Schema,
): Promise<z.infer<Schema>> {
  const type = headerOf(exchange.request, 'content-type')?.split(';')[0]?.trim().toLowerCase();
  if (type !== 'application/json') {
    const what = `expected content type application/json, got ${type ?? 'none'}`;
    throw validationRefusal([{ where: 'headers', what }]);
  }
  const value = parseJson(await readText(exchange));
  const { data, error } = schema.safeParse(value);
  if (error !== undefined) throw validationRefusal(problemsOf(error, value));
  return data;
}

export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw validationRefusal([{ where: 'json', what: `expected JSON, got none: ${String(error)}` }]);
  }
}
