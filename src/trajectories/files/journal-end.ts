import { parseLine } from '../../model/journal.js';
import { applyLine, emptyTrajectory } from '../../model/trajectory.js';
import type { JournalLine } from '../../model/journal.js';
import type { GlancedEnd } from '../trajectory-store.js';
import type { JournalFile } from './journal-file.js';
import { findJournal } from './journal-file.js';

/** How lines begin: a line feed stands in no line's middle. */
const END = '\n{"kind":"end"';
const CLAIM = '\n{"kind":"claim"';

/** An end and the claims behind it are shorter. */
const TAIL_BYTES = 1 << 16;

/**
 * The end that stands, from the last lines. An end counts where the claim before it is its writer's, and while no later
 * claim opens the rollout again; an attempt that finds one writes none. So the fold of these lines alone has the end that
 * the fold of all has. Whatever is unusual is left to the latter.
 */
export function findEnd(file: string): GlancedEnd | null {
  const journal = findJournal(file);
  if (journal === null) return null;
  try {
    const lines = linesThatEnd(journal).map(parseLine);
    const trajectory = emptyTrajectory();
    for (const line of lines) {
      if (line === null) return null;
      applyLine(trajectory, line);
    }
    const { end } = trajectory;
    return end?.glance === undefined ? null : { ...end, glance: end.glance };
  } finally {
    journal.close();
  }
}

/** The last end, the claim before it and all that follows it; nothing where no end is near the journal's own. */
function linesThatEnd(journal: JournalFile): string[] {
  const size = journal.size();
  for (let length = TAIL_BYTES; ; length *= 4) {
    const from = Math.max(0, size - length);
    const tail = journal.read({ from, to: size });
    const end = tail.lastIndexOf(END);
    if (end === -1) return [];
    const claim = tail.lastIndexOf(CLAIM, end);
    if (claim !== -1) {
      const claimed = tail.toString('utf8', claim + 1, tail.indexOf('\n', claim + 1));
      const rest = tail.toString('utf8', end + 1).split('\n');
      return [claimed, ...rest.filter((line) => line !== '')];
    }
    if (from === 0) return [];
  }
}

/** Behind any of them, totals are known. */
const TOTALS = ['\n{"kind":"observation"', '\n{"kind":"start"', END];
const CHUNK = '{"kind":"chunk"';

/** As `TrajectoryStore` has it. */
export function readLastLines(file: string): JournalLine[] {
  const journal = findJournal(file);
  if (journal === null) return [];
  try {
    const texts = textsBehindTotals(journal);
    const chunk = texts.findLastIndex((text) => text.startsWith(CHUNK));
    return texts
      .filter((text, i) => i === chunk || !text.startsWith(CHUNK))
      .flatMap((text) => parseLine(text) ?? []);
  } finally {
    journal.close();
  }
}

function textsBehindTotals(journal: JournalFile): string[] {
  const size = journal.size();
  for (let length = TAIL_BYTES; ; length *= 4) {
    const from = Math.max(0, size - length);
    const tail = journal.read({ from, to: size });
    const at = Math.max(...TOTALS.map((kind) => tail.lastIndexOf(kind)));
    if (at !== -1 || from === 0) return tail.toString('utf8', Math.max(0, at)).split('\n');
  }
}
