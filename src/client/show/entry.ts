import type { Glance } from '../../model/journal/glance.js';
import type { Failure, LineOf } from '../../model/journal.js';
import type { Standing } from '../../model/journal/standing.js';
import { lastFault, waitingOf } from '../../model/journal/standing.js';
import type { Place } from '../../model/workflow-safe/rollout-id.js';
import { VALID_STOP_REASONS, type StopReason } from '../../model/workflow-safe/stop-reasons.js';
import { shortened } from '../../platform/errors.js';
import { plainLine } from '../../platform/plain.js';
import { waitingText } from '../../model/workflow-safe/waiting.js';

/** A rollout as a list shows it. */
export interface Entry extends Place {
  task_name: string | null;
  /** null: it has not ended. */
  ended: StopReason | null;
  /** For a valid end; nothing else has a reward. */
  reward: number | null;
  /** The rewards so far, however it ended. */
  reward_so_far: number;
  turns: number;
  /** Generated tokens. */
  tokens: number;
  /** Seconds since 1970; null: it never started. */
  started_at: number | null;
  /** From its start to its end, or to its journal's last line; null: it never started. */
  wall_s: number | null;
  attempts: number;
  faults: number;
  failure: Failure | null;
  /** Why, in a line: its failure, the last words of a valid one, or what an unfinished one waits for. */
  reason: string | null;
}

export const isValid = ({ ended }: Pick<Entry, 'ended'>): boolean => VALID_STOP_REASONS.has(ended);

export const isFailed = (entry: Pick<Entry, 'ended'>): boolean =>
  entry.ended !== null && !isValid(entry);

export const inOrder = (a: Place, b: Place): number => a.row - b.row || a.repeat - b.repeat;

/** What its journal says. */
export interface Read {
  glance: Glance;
  end: LineOf<'end'> | null;
  /** The time of the last line that counts, if it has not ended. */
  last_at: number | null;
  /** How far it is, likewise. */
  standing: Standing | null;
}

/** `now_s`: in seconds, as in journal lines. */
export function entryOf({ row, repeat }: Place, read: Read & { now_s: number }): Entry {
  const { glance, end, last_at } = read;
  const ended = end?.stop_reason ?? null;
  const until = end?.at ?? last_at;
  const { started_at, total_reward } = glance;
  return {
    row,
    repeat,
    task_name: glance.task_name,
    ended,
    reward: isValid({ ended }) ? total_reward : null,
    reward_so_far: total_reward,
    turns: glance.turn_count,
    tokens: glance.assistant_tokens,
    started_at,
    wall_s: started_at === null || until === null ? null : Math.max(0, until - started_at),
    attempts: glance.attempts,
    faults: glance.faults,
    failure: end?.failure ?? null,
    reason: reasonOf(read),
  };
}

const REASON_CHARACTERS = 240;

function reasonOf({ glance, end, standing, now_s }: Read & { now_s: number }): string | null {
  const trouble = end === null ? standing && lastFault(standing) : end.failure;
  if (trouble) return inALine(`${trouble.type}: ${trouble.message}`);
  if (end !== null) return glance.last_words ?? null;
  const names = { task: glance.task_name ?? '', service: '' };
  const waiting = standing && waitingOf(standing, { names, now_s });
  return waiting && inALine(`waits for ${waitingText(waiting)}`);
}

const inALine = (text: string): string => shortened(plainLine(text), REASON_CHARACTERS);
