import { z } from 'zod';
import { KeptJson, readJson, writeJson } from '../platform/json/kept.js';
import { type Members, membersOf, objectText } from '../platform/json/members.js';
import { isRecord } from '../platform/json/object.js';
import { recordOf } from './untrusted.js';

/** An object of others is its text. One that this project makes may be plain. */
export type ForeignObject = Record<string, unknown> | KeptJson;

export const isForeignObject = (value: unknown): value is ForeignObject =>
  value instanceof KeptJson ? value.text.startsWith('{') : isRecord(value);

/** An object whose fields are all foreign, passed on as it is. */
export function foreignObject(): z.ZodType<ForeignObject, ForeignObject> {
  const record = recordOf(z.unknown());
  return z
    .custom<ForeignObject>(() => true)
    .superRefine((input: unknown, context) => {
      // It may be long, and only its names matter here.
      const value = input instanceof KeptJson ? namesIn(input) : input;
      for (const { path, message } of record.safeParse(value).error?.issues ?? [])
        context.addIssue({ code: 'custom', path, message });
    })
    .meta({ type: 'object', propertyNames: { type: 'string' }, additionalProperties: {} });
}

function namesIn(kept: KeptJson): unknown {
  const members = membersOf(kept.text);
  return members === null
    ? kept.plain
    : Object.fromEntries([...members.keys()].map((name) => [name, 0]));
}

export const membersIn = (object: ForeignObject): Members =>
  membersOf(writeJson(object)) ?? new Map<string, string>();

/** The field of a foreign object; undefined: it has none, or is no object. */
export function fieldIn(object: unknown, name: string): unknown {
  const text = isForeignObject(object) ? membersIn(object).get(name) : undefined;
  return text === undefined ? undefined : readJson(text);
}

export const fieldsIn = (object: ForeignObject): Record<string, unknown> =>
  Object.fromEntries(Array.from(membersIn(object), ([name, text]) => [name, readJson(text)]));

/** The object with another value of a field, at its place or at the end. */
export const withField = (
  object: ForeignObject,
  { name, value }: { name: string; value: unknown },
): ForeignObject => new KeptJson(objectText(membersIn(object).set(name, writeJson(value))));

/** The object with the fields of another, whose values win. */
export const withFields = (object: ForeignObject, other: ForeignObject): ForeignObject =>
  new KeptJson(objectText(new Map([...membersIn(object), ...membersIn(other)])));

export function withoutField(object: ForeignObject, name: string): ForeignObject {
  const members = membersIn(object);
  return members.delete(name) ? new KeptJson(objectText(members)) : object;
}
