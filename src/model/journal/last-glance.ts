import type { JournalLine } from '../journal.js';
import type { Glance } from './glance.js';
import type { Standing } from './standing.js';
import { applyToStanding, newStanding } from './standing.js';
import { finishedIn, isAnotherAttempt, isLate } from './trajectory.js';

/** What lists show of a rollout that has not ended. */
export interface LastGlance {
  glance: Glance;
  /** When the last line was written, in seconds since 1970. */
  last_at: number;
  standing: Standing;
}

const NEEDS_THE_WHOLE: ReadonlySet<JournalLine['kind']> = new Set(['result', 'end', 'call']);

/**
 * From the last lines of a journal without a standing end (`TrajectoryStore.readLastLines`), where folding the whole
 * would give the same. null: only the whole can tell, because another attempt's lines stand among them, an agent has
 * answered, or the first line has no glance.
 */
export function lastGlanceOf([first, ...rest]: readonly JournalLine[]): LastGlance | null {
  if (first?.kind !== 'start' && first?.kind !== 'observation' && first?.kind !== 'answer')
    return null;
  if (first.glance === undefined) return null;
  const glance = { ...first.glance, started_at: first.glance.started_at ?? first.at };
  const { turn_count, assistant_tokens } = glance;
  const standing = newStanding();
  applyToStanding(standing, first);
  let { writer, at: last_at } = first;
  let finished_in: string | null = null;
  for (const line of rest) {
    if (line.kind === 'claim') {
      if (isLate({ finished_in }, line)) continue;
      finished_in = finishedIn(line) ?? finished_in;
      ({ writer } = line);
    }
    if (line.writer !== writer || NEEDS_THE_WHOLE.has(line.kind)) return null;
    // Whose answer it is, and how much of it the glance counts, is said further above.
    if (first.kind === 'answer' && (line.kind === 'chunk' || line.kind === 'generation'))
      return null;
    last_at = line.at;
    applyToStanding(standing, line);
    if (line.kind === 'claim' && isAnotherAttempt(line)) glance.attempts += 1;
    if (line.kind === 'fault') glance.faults += 1;
    if (line.kind === 'chunk') {
      glance.turn_count = turn_count + 1;
      glance.assistant_tokens = assistant_tokens + line.offset + line.token_ids.length;
    }
    if (line.kind === 'generation') glance.turn_count = turn_count + 1;
  }
  return { glance, last_at, standing };
}
