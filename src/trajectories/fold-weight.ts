import type { JournalLine } from '../model/journal.js';

/** A token id in a fold: in its turn and in the context, each in an array that grows by half at a time. */
const ID_BYTES = 20;
/** A logprob likewise, only in its turn. */
const LOGPROB_BYTES = 10;
/** The likeliest ids of one token: an array, and a pair for each. */
const TOP_BYTES = 60;
/** An empty fold, and what each line adds beside its texts: objects, segments, counts. */
export const EMPTY_FOLD_BYTES = 16_384;
const LINE_BYTES = 1024;
/** Objects from JSON texts. */
const OBJECT_WEIGHT = 3;

/**
 * An upper bound of the bytes that a line adds to its trajectory's fold in memory: what it replaces is not subtracted.
 * `npm test -- long-journals` measures them.
 */
export function takenBy(line: JournalLine, line_bytes: number): number {
  switch (line.kind) {
    case 'chunk': {
      // Its text is kept until the turn is complete; then the content is.
      const tops = (line.top_logprobs ?? []).reduce((sum, top) => sum + (top.length + 1), 0);
      const ids = line.token_ids.length * ID_BYTES + line.logprobs.length * LOGPROB_BYTES;
      return ids + tops * TOP_BYTES;
    }
    case 'generation':
      return LINE_BYTES + line_bytes;
    case 'observation':
      return (
        LINE_BYTES +
        line.token_ids.length * ID_BYTES +
        OBJECT_WEIGHT * (line_bytes - line.token_ids.length * 2)
      );
    case 'start': {
      const ids = line.prompt.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
      return ids * ID_BYTES + OBJECT_WEIGHT * line_bytes;
    }
    case 'call':
      return LINE_BYTES + line.prompt_ids.length * ID_BYTES + line_bytes;
    case 'material':
      return OBJECT_WEIGHT * line_bytes;
    case 'answer':
    case 'refused':
    case 'exit':
      return LINE_BYTES + line_bytes;
    case 'result':
      return line_bytes;
    default:
      return 0;
  }
}
