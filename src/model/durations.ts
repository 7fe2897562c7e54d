import { z } from 'zod';
import { durationProblem } from './workflow-safe/durations.js';

/** A positive duration as people write it, at most 10 years. Kept as written, so that files read well. */
export const Duration = z.string().superRefine((text, context) => {
  const message = durationProblem(text);
  if (message !== null) context.addIssue({ code: 'custom', message });
});
