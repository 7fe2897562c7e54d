import { z } from 'zod';
import { preview, problemsOf } from './problems.js';
import { EXPECTED_TOKEN_ID, GREATEST_TOKEN_ID, isTokenId } from './token-id.js';

/** Schemas for foreign data. Plain zod loses a name, and reports every wrong entry of a long list. */

/** Objects keep every name except this one: zod drops it silently, and an assignment would set the prototype. */
const IMPOSSIBLE = '__proto__';

export const nameProblem = (name: string): string | null =>
  name === IMPOSSIBLE ? `expected another name: no object can keep a field ${IMPOSSIBLE}` : null;

/** The type of a record before it is read. The report names the field, and "got" avoids quoting a long value. */
const Named = z
  .custom(() => true)
  .superRefine((input, context) => {
    if (typeof input !== 'object' || input === null || !Object.hasOwn(input, IMPOSSIBLE)) return;
    const message = `${nameProblem(IMPOSSIBLE) ?? ''}, got one`;
    context.addIssue({ code: 'custom', path: [IMPOSSIBLE], message });
  });

/** An object schema that accepts unknown fields, but none that would be lost. */
export const withPossibleNames = <T extends z.ZodType>(
  schema: T,
): z.ZodType<z.output<T>, z.input<T>> =>
  Named.pipe(schema as z.ZodType) as z.ZodType as z.ZodType<z.output<T>, z.input<T>>;

/** `example`: of what belongs there, for the message about anything else. */
export const recordOf = <T extends z.ZodType>(values: T, { example }: { example?: string } = {}) =>
  withPossibleNames(
    z.record(z.string(), values, {
      error: ({ code, input }) =>
        code === 'invalid_type' && example !== undefined
          ? `expected an object such as ${example}, got ${preview(input)}`
          : undefined,
    }),
  );

/** Reports only the first wrong entry of a longer list. Plain zod would report each one, possibly millions. */
const FEW = 100;
const WRONG = { where: '(input)', what: 'malformed' };

export const listOf = <T extends z.ZodType>(items: T): z.ZodType<z.output<T>[], z.input<T>[]> =>
  z
    .custom<unknown[]>(Array.isArray, 'expected array')
    .superRefine((list, context) => {
      if (list.length <= FEW) return;
      for (const [at, entry] of list.entries()) {
        const { error } = items.safeParse(entry);
        if (error === undefined) continue;
        const [{ where, what } = WRONG] = problemsOf(error, entry);
        const path = where === WRONG.where ? [at] : [at, where];
        // Not only for unknown fields, after which zod continues with the list.
        context.addIssue({ code: 'custom', path, message: what });
        return;
      }
    })
    .pipe(z.array(items) as z.ZodType<unknown, unknown[]>) as z.ZodType as z.ZodType<
    z.output<T>[],
    z.input<T>[]
  >;

/** A list of anything: zod would look at each entry. */
const AnyList = z.custom<unknown[]>(Array.isArray, 'expected array');

/** A list of numbers of any length, of which only the first wrong entry is reported. `expected` describes an entry. */
const numbersOf = (
  holds: (value: number) => boolean,
  { expected, entry }: { expected: string; entry: object },
): z.ZodType<number[]> =>
  AnyList.superRefine((list, context) => {
    const wrong = list.findIndex((entry) => typeof entry !== 'number' || !holds(entry));
    if (wrong !== -1) context.addIssue({ code: 'custom', path: [wrong], message: expected });
  }).meta({ type: 'array', items: entry }) as z.ZodType as z.ZodType<number[]>;

export const TokenIds = numbersOf(isTokenId, {
  expected: EXPECTED_TOKEN_ID,
  entry: { type: 'integer', minimum: 0, maximum: GREATEST_TOKEN_ID },
});
export const FiniteNumbers = numbersOf(Number.isFinite, {
  expected: 'expected number',
  entry: { type: 'number' },
});

/** Python's booleans are numbers, and its verifiers answer with them. */
export const numberOfBoolean = <T extends z.ZodType>(schema: T) =>
  // No `preprocess`: a tuple may lack it.
  z
    .unknown()
    .transform((value) => (typeof value === 'boolean' ? Number(value) : value))
    .pipe(schema as z.ZodType<z.output<T>>);
