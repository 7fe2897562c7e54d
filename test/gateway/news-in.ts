import type { ReadAnswer } from '../../src/model/calls/parsers/read-answer.js';

type Said = Omit<ReadAnswer, 'malformed'>;

/** What one reading of a growing text has beyond the one before it. */
export const newsIn = (before: Said, after: Said): Said => ({
  ...(after.reasoning !== undefined && {
    reasoning: after.reasoning.slice(before.reasoning?.length ?? 0),
  }),
  content: after.content.slice(before.content.length),
  calls: after.calls.slice(before.calls.length),
});
