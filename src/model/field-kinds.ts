import { z } from 'zod';
import { durationProblem } from './workflow-safe/durations.js';

/** Kinds of fields that several inputs have. */

export const orNull = <T extends z.ZodType>(kind: T) => kind.nullable().default(null);
export const Positive = z.int().positive();
export const PositiveNumber = z.number().positive();
export const Count = z.int().nonnegative();
export const Word = z.string().min(1);
export const Flag = z.boolean().default(false);
export const On = z.boolean().default(true);
export const Words = z.array(Word).default([]);

type Bounds = readonly [least: number, most: number];
export const numberIn = ([least, most]: Bounds, usual: number) =>
  z.number().min(least).max(most).default(usual);
export const integerIn = ([least, most]: Bounds, usual: number) =>
  z.int().min(least).max(most).default(usual);

export const oneOf = <const T extends string>(names: readonly T[], usual: NoInfer<T>) =>
  z.enum(names).default(usual as z.core.util.NoUndefined<T>);

/** A field that may be absent, and what it says. */
export const maybe = <T extends z.ZodType>(kind: T, what: string) =>
  kind.exactOptional().describe(what);

export const maybeText = (what: string) => maybe(z.string(), what);

export const count = (what: string) => z.int().describe(what);
export const text = (what: string) => z.string().describe(what);
export const number = (what: string) => z.number().describe(what);
export const bool = (what: string) => z.boolean().describe(what);
export const countOrNull = (what: string) => z.int().nullable().describe(what);
export const textOrNull = (what: string) => z.string().nullable().describe(what);

export const refuserOf =
  (context: z.core.$RefinementCtx) =>
  (path: readonly (string | number)[], message: string): void => {
    context.addIssue({ code: 'custom', path: [...path], message });
  };

/** A positive duration as people write it, at most 10 years. It keeps its text, so that files stay readable. */
export const Duration = z
  .string({ error: ({ input }) => (input === undefined ? undefined : durationProblem(input)) })
  .superRefine((text, context) => {
    const message = durationProblem(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({ title: 'duration' });
