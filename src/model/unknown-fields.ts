import type { z } from 'zod';
import { whyRefused } from './engine-fields.js';
import { jsonSchemaOf } from './json-schema.js';
import { nearest } from '../platform/nearest.js';
import type { Problem } from './problems.js';
import { invalidBatchRequest, problemsOf } from './problems.js';

/** An input that people write, as its schema has it. Throws `InvalidBatchRequest` with all of its problems. */
export function parsedAs<T extends z.ZodType>(schema: T, input: unknown): z.infer<T> {
  const { data, error } = schema.safeParse(input);
  if (error === undefined) return data;
  throw invalidBatchRequest(problemsWithHints(error, { schema, input }));
}

/** Zod's problems of an input that people write, with the known field that an unknown one probably means. */
export function problemsWithHints(
  error: z.ZodError,
  of: { schema: z.ZodType; input: unknown },
): Problem[] {
  const problems = problemsOf(error, of.input);
  const isUnknown = ({ what }: Problem): boolean => what === 'unknown field';
  if (!problems.some(isUnknown)) return problems;
  const places = placesOf(of.schema);
  return problems.map((problem) => {
    const { where } = problem;
    if (!isUnknown(problem)) return problem;
    const hint = hintOf(
      where,
      places.map((place) => asIn(where, place)),
    );
    return hint === null ? problem : { ...problem, what: `unknown field; ${hint}` };
  });
}

function hintOf(where: string, places: readonly string[]): string | null {
  const name = nameOf(where);
  const alias = ALIASES.get(name);
  if (alias !== undefined && places.includes(alias)) return `did you mean ${alias}?`;
  const isSampling =
    places.includes('generation.temperature') && ['', 'generation'].includes(parentOf(where));
  const why = isSampling ? whyRefused(name) : null;
  if (why !== null) return why;
  const meant = likelyPlace(where, places);
  return meant === null ? null : `did you mean ${meant}?`;
}

const ALIASES = new Map([
  ['max_tokens', 'generation.max_new_tokens'],
  ['max_completion_tokens', 'generation.max_new_tokens'],
  ['n', 'num_repeats'],
  ['num_generations', 'num_repeats'],
  ['group_size', 'num_repeats'],
  ['num_return_sequences', 'num_repeats'],
  ['max_turns', 'max_rollout_turns'],
  ['stop', 'generation.stop_strings'],
  ['logprobs', 'generation.include_logprobs'],
]);

/** A field of this name elsewhere, or one spelled much like it, siblings first. */
function likelyPlace(where: string, places: readonly string[]): string | null {
  const name = nameOf(where);
  const isBeside = (place: string): boolean => parentOf(place) === parentOf(where);
  const ordered = [...places].sort((a, b) => Number(isBeside(b)) - Number(isBeside(a)));
  const known = ordered.map(nameOf);
  const meant = known.includes(name)
    ? name
    : nearest(name, { known, mistakes: Math.floor(name.length / 4) });
  return meant === null ? null : (ordered[known.indexOf(meant)] ?? null);
}

/** A field of any entry of a record as the field of the entry that `where` is in. */
function asIn(where: string, place: string): string {
  const own = where.split('.');
  let isInside = true;
  const parts = place.split('.').map((part, at) => {
    isInside &&= part === '*' || part === own[at];
    return isInside ? (own[at] ?? part) : part;
  });
  return parts.join('.');
}

const nameOf = (place: string): string => place.slice(place.lastIndexOf('.') + 1);
const parentOf = (place: string): string => place.slice(0, Math.max(0, place.lastIndexOf('.')));

interface Shape {
  properties?: Record<string, Shape>;
  additionalProperties?: Shape | boolean;
  anyOf?: Shape[];
  oneOf?: Shape[];
  allOf?: Shape[];
}

/** The paths of all fields, outermost objects first; `*` is any key of a record. */
function placesOf(schema: z.ZodType): string[] {
  const shape = jsonSchemaOf(schema) as Shape;
  const places = new Set<string>();
  const walk = (at: string, here: Shape): void => {
    for (const [name, inner] of Object.entries(here.properties ?? {})) {
      const place = at === '' ? name : `${at}.${name}`;
      places.add(place);
      walk(place, inner);
    }
    if (typeof here.additionalProperties === 'object') walk(`${at}.*`, here.additionalProperties);
    for (const inner of [...(here.anyOf ?? []), ...(here.oneOf ?? []), ...(here.allOf ?? [])])
      walk(at, inner);
  };
  walk('', shape);
  return [...places].sort((a, b) => a.split('.').length - b.split('.').length);
}
