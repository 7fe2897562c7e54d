import { z } from 'zod';
import { durationProblem } from './workflow-safe/durations.js';

/** A positive duration as people write it, at most 10 years. It keeps its text, so that files stay readable. */
export const Duration = z
  .string({ error: ({ input }) => (input === undefined ? undefined : durationProblem(input)) })
  .superRefine((text, context) => {
    const message = durationProblem(text);
    if (message !== null) context.addIssue({ code: 'custom', message });
  })
  .meta({ title: 'duration' });
