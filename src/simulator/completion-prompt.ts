import {
  LIST_TYPE,
  parseInteger,
  STRING_TYPE,
  type BodyReader,
  type FieldProblem,
} from './body-reader.js';
import { notImplemented } from './request-limits.js';
import { encode } from './tokenizer.js';

/** Ids or a text. Any other list fails all four of pydantic's branches (captures 044, 045). */
export function readPrompt(prompt: unknown, reader: BodyReader): number[] {
  if (typeof prompt === 'string') return encode(prompt);
  if (!Array.isArray(prompt)) {
    for (const branch of [LIST_TYPE, LIST_TYPE, STRING_TYPE, LIST_TYPE]) {
      reader.add({ ...branch, loc: 'prompt', input: prompt });
    }
    return [];
  }
  const items = prompt as readonly unknown[];
  if (items.every(isId)) return [...items];
  if (items.every((item) => typeof item === 'string' || Array.isArray(item))) {
    throw notImplemented('prompt', 'a list of prompts');
  }
  for (const problem of branchProblems(items)) reader.add(problem);
  return [];
}

function isId(item: unknown): item is number {
  return typeof item === 'number' && Number.isInteger(item) && item >= 0;
}

function branchProblems(items: readonly unknown[]): FieldProblem[] {
  const everyItem = (branch: Pick<FieldProblem, 'type' | 'msg'>): FieldProblem[] =>
    items.map((input, i) => ({ ...branch, loc: `prompt.${i}`, input }));
  return [
    ...items.flatMap((item, i) => idProblem(item, `prompt.${i}`)),
    ...everyItem(LIST_TYPE),
    { ...STRING_TYPE, loc: 'prompt', input: items },
    ...everyItem(STRING_TYPE),
  ];
}

function idProblem(input: unknown, loc: string): FieldProblem[] {
  const id = parseInteger(input);
  if (!('value' in id)) return [{ ...id, loc, input }];
  if (id.value >= 0) return [];
  const msg = 'Input should be greater than or equal to 0';
  return [{ type: 'greater_than_equal', loc, msg, input, ctx: { ge: 0 } }];
}

/** Texts that end the answer; a single one may stand without a list. */
export function readStop(stop: unknown, reader: BodyReader): string[] {
  if (stop === undefined || stop === null) return [];
  if (typeof stop === 'string') return [stop];
  if (!Array.isArray(stop)) {
    reader.add({ ...STRING_TYPE, loc: 'stop', input: stop });
    reader.add({ ...LIST_TYPE, loc: 'stop', input: stop });
    return [];
  }
  return (stop as unknown[]).map((item, i) => {
    if (typeof item === 'string') return item;
    reader.add({ ...STRING_TYPE, loc: `stop.${i}`, input: item });
    return '';
  });
}
