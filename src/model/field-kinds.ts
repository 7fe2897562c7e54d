import { z } from 'zod';

/** Kinds of fields that several inputs have. */

export const orNull = <T extends z.ZodType>(kind: T) => kind.nullable().default(null);
export const Positive = z.int().positive();
export const Count = z.int().nonnegative();
export const Word = z.string().min(1);
export const Flag = z.boolean().default(false);

/** One of these names, `usual` by default. */
export const oneOf = <const T extends string>(names: readonly T[], usual: NoInfer<T>) =>
  z.enum(names).default(usual as z.core.util.NoUndefined<T>);

/** A field that may be absent, and what it says. */
export const maybe = <T extends z.ZodType>(kind: T, what: string) =>
  kind.exactOptional().describe(what);

export const count = (what: string) => z.int().describe(what);
export const text = (what: string) => z.string().describe(what);

/** Refuses a field of an input that a schema is reading. */
export const refuserOf =
  (context: z.core.$RefinementCtx) =>
  (path: readonly (string | number)[], message: string): void => {
    context.addIssue({ code: 'custom', path: [...path], message });
  };
