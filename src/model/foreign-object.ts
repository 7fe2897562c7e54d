import { z } from 'zod';
import { KeptJson, readJson, writeJson } from '../platform/json/kept.js';
import { membersOf, objectText } from '../platform/json/members.js';
import { isRecord } from '../platform/json/object.js';
import { recordOf } from './untrusted.js';

/** An object of others: plain, or its text if JavaScript would lose something of it. */
export type ForeignObject = Record<string, unknown> | KeptJson;

export const isForeignObject = (value: unknown): value is ForeignObject =>
  value instanceof KeptJson ? value.text.startsWith('{') : isRecord(value);

/**
 * The schema of an object whose fields are all foreign. It is passed on as it is. `example`: of what belongs there, for
 * the message about anything else.
 */
export function foreignObject({ example }: { example?: string } = {}): z.ZodType<
  ForeignObject,
  ForeignObject
> {
  const record = recordOf(z.unknown(), { ...(example !== undefined && { example }) });
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

/** The field of a foreign object. */
export function fieldIn(object: ForeignObject, name: string): unknown {
  if (!(object instanceof KeptJson)) return Object.hasOwn(object, name) ? object[name] : undefined;
  const text = membersOf(object.text)?.get(name);
  return text === undefined ? undefined : readJson(text);
}

/** All fields of a foreign object: those that would lose something as text. */
export const fieldsIn = (object: ForeignObject): Record<string, unknown> =>
  object instanceof KeptJson
    ? Object.fromEntries(
        Array.from(membersOf(object.text) ?? [], ([name, text]) => [name, readJson(text)]),
      )
    : object;

/** The object with another value of a field, at its place or at the end. */
export const withField = (
  object: ForeignObject,
  { name, value }: { name: string; value: unknown },
): ForeignObject =>
  object instanceof KeptJson
    ? new KeptJson(objectText((membersOf(object.text) ?? new Map()).set(name, writeJson(value))))
    : { ...object, [name]: value };

export function withoutField(object: ForeignObject, name: string): ForeignObject {
  if (object instanceof KeptJson) {
    const members = membersOf(object.text);
    return members?.delete(name) === true
      ? (readJson(objectText(members)) as ForeignObject)
      : object;
  }
  if (!(name in object)) return object;
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name));
}
