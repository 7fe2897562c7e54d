import type { Trajectory } from '../model/journal/trajectory.js';
import type { Tape } from './call.js';

/** The tape of one answer of a journal. */
export const tapeOf = (journal: {
  readonly trajectory: Trajectory;
  append: Tape['append'];
}): Tape => ({
  open: () => journal.trajectory.open,
  append: (line) => journal.append(line),
});
