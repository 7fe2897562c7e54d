import type { Answers } from '../model/journal/open-answers.js';
import { openAnswer } from '../model/journal/open-answers.js';
import type { Tape } from './call.js';

interface Written extends Pick<Tape, 'append'> {
  readonly trajectory: Pick<Answers, 'open'> & { turns: readonly unknown[] };
}

/** The tape of one answer of a journal. */
export const tapeOf = (journal: Written, turn: number): Tape => ({
  open: () => openAnswer(journal.trajectory, turn),
  append: (line) => journal.append(line),
});
