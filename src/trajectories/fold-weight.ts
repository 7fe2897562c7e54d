import type { JournalLine } from '../model/journal.js';

/** A token id as a fold holds it: in its turn and in the context, each in an array that grew by half at a time. */
const ID_BYTES = 20;
/** A logprob likewise, in its turn alone. */
const LOGPROB_BYTES = 10;
/** One place's likeliest ids: an array, and a pair for each. */
const TOP_BYTES = 60;
/** A fold that holds nothing, and what each line adds beside its texts: objects, segments, counts. */
export const EMPTY_FOLD_BYTES = 16_384;
const LINE_BYTES = 1024;
/** Objects that JSON texts become. */
const OBJECT_WEIGHT = 3;

/**
 * What a line adds to the bytes that its trajectory's fold holds in memory: at most, since what it replaces is not taken
 * off. ARCHITECTURE.md says how it was measured.
 */
export function heldBytes(line: JournalLine, line_bytes: number): number {
  switch (line.kind) {
    case 'chunk': {
      // Its text is held until the turn is whole: then the content is.
      const tops = (line.top_logprobs ?? []).reduce((sum, top) => sum + (top.length + 1), 0);
      const ids = line.token_ids.length * ID_BYTES + line.logprobs.length * LOGPROB_BYTES;
      return ids + tops * TOP_BYTES;
    }
    case 'generation':
      return LINE_BYTES + line_bytes;
    case 'observation':
      return LINE_BYTES + line.token_ids.length * ID_BYTES + OBJECT_WEIGHT * (line_bytes - line.token_ids.length * 2); // prettier-ignore
    case 'start': {
      const ids = line.prompt.reduce((sum, { token_ids }) => sum + token_ids.length, 0);
      return ids * ID_BYTES + OBJECT_WEIGHT * line_bytes;
    }
    case 'result':
      return line_bytes;
    default:
      return 0;
  }
}
