import { z } from 'zod';
import { durationProblem } from './duration-text.js';

export { toMs } from './duration-text.js';

/** A positive duration as people write it: `500ms`, `2s`, `5m`, `1h`. Kept as written, so that files read well. */
export const Duration = z.string().refine((text) => durationProblem(text) === null, {
  error: ({ input }) => durationProblem(input) ?? '',
});
