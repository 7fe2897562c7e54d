import { z } from 'zod';
import { durationProblem } from './workflow-safe/durations.js';
import { baseUrl } from '../platform/http/base-url.js';

/** Kinds of fields that several inputs have. */

export const orNull = <T extends z.ZodType>(kind: T) => kind.nullable().default(null);
export const Positive = z.int().positive();
export const Count = z.int().nonnegative();
export const Word = z.string().min(1);
export const Flag = z.boolean().default(false);

export const oneOf = <const T extends string>(names: readonly T[], usual: NoInfer<T>) =>
  z.enum(names).default(usual as z.core.util.NoUndefined<T>);

/** A field that may be absent, and what it says. */
export const maybe = <T extends z.ZodType>(kind: T, what: string) =>
  kind.exactOptional().describe(what);

export const count = (what: string) => z.int().describe(what);
export const text = (what: string) => z.string().describe(what);

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

/**
 * A service's base URL: every URL of temporal.yaml is read here. Paths are appended to it, and messages show it, so it
 * has no query and no credentials. The messages contain "got" themselves, which keeps the report from quoting a
 * possibly secret value.
 */
export const BaseUrl = z
  .string()
  .superRefine((text, context) => {
    const message = urlProblem(text);
    // A value that may contain a secret is not quoted.
    if (message !== null) context.addIssue({ code: 'custom', message, continue: false });
  })
  .transform(baseUrl);

function urlProblem(text: string): string | null {
  const example = 'expected a URL such as http://127.0.0.1:9000';
  if (text.includes('@')) {
    return 'expected a URL without user name and password (token_env or api_key_env names a token), got one with';
  }
  if (!URL.canParse(text) || /\s/.test(text)) return example;
  const { protocol } = new URL(text);
  if (/[?#]/.test(text)) return 'expected a URL without query and fragment, got one with';
  return ['http:', 'https:'].includes(protocol) ? null : example;
}
