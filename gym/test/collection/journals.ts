import type { JournalLine, LineOf } from '../../../src/model/journal.js';
import { failedLives } from '../../../src/model/journal/lives.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { parseJson, isObject, numberOf } from '../../json/exact.js';
import { author, entryOf, gymLife } from '../../../test/fakes/journal-lines.js';

/** How a row that an agent plays ends, as its journal says it. */
export type Ending =
  | { text: string; /** Where the text is not to be read for it. */ reward?: number }
  | { status: number }
  /** An answer that lacks only a usable reward. */
  | { unscored: string }
  /** Stopped or cancelled before it was done. */
  | { reason: 'cancelled' | 'stopped' | 'timeout' }
  /** It waits for its agent's server. */
  | { absent: string }
  /** It still plays. */
  | null;

const by = author('test');

/** Plays rows into journals as a worker does, one life after the other. */
export function agentJournals(
  store: TrajectoryStore,
  {
    batch_id,
    before = () => 0,
  }: {
    batch_id: string;
    /** How often a row had failed before the batch. */
    before?: (row: number) => number;
  },
) {
  const begun = new Set<number>();
  return async (row: number, ending: Ending): Promise<void> => {
    const ref = { batch_id, row, repeat: 0 };
    const journal = await store.claim(ref, { activity: 'test', reopen: begun.has(row) });
    begun.add(row);
    const { lives } = journal.trajectory;
    const attempt_index = before(row);
    const extra_env_info = { ...{ agent: 'ag', task_index: 0, rollout_index: 0 }, attempt_index };
    const attempt = attempt_index + failedLives({ lives, forgiven: 0 }).length;
    const lines = [
      by.start({ plays: 'agent', prompt: [], extra_env_info: { ...extra_env_info, row: '{}' } }),
      ...linesOf(ending, { life: lives.length + 1, attempt }),
    ];
    for (const line of lines) await journal.append(entryOf(line));
    await journal.commit();
    await journal.release();
  };
}

interface Place {
  life: number;
  attempt: number;
}

function linesOf(ending: Ending, { life, attempt }: Place): JournalLine[] {
  const begins = by.life({ life });
  if (ending === null) return [begins];
  if ('absent' in ending)
    return [by.fault({ type: 'EnvironmentUnavailable', message: ending.absent })];
  if ('reason' in ending) {
    const { reason } = ending;
    return [begins, by.end({ stop_reason: reason, failure: reason === 'timeout' ? FAILED : null })];
  }
  if ('status' in ending) {
    const { status } = ending;
    const fault = faultOf({ message: `POST /run answered ${status}`, status });
    return [begins, by.exit({ life, code: 1 }), fault, failed];
  }
  if ('unscored' in ending) {
    const fault = faultOf({ message: 'reward: expected a finite number' });
    const answered = { attempt, text: ending.unscored, reward: null };
    return [...gymLife(by, { life, code: 1, ...answered }), fault, failed];
  }
  const answer = answerOf(ending);
  const counts = answer.failure_class === null && answer.persist;
  const lived = gymLife(by, { life, code: counts ? 0 : 1, attempt, ...answer });
  if (!counts) return [...lived, by.fault({ type: 'AgentFailed' }), failed];
  return [...lived, by.observation({ reward: answer.reward ?? 0, terminated: true }), by.end()];
}

const FAILED = { type: 'EnvironmentRejected', message: 'POST /run failed', turn: 0 };
const failed = by.end({ stop_reason: 'failed', failure: FAILED });

const faultOf = (fault: Pick<LineOf<'fault'>, 'message' | 'status'>): LineOf<'fault'> =>
  by.fault({ type: 'EnvironmentRejected', failure_class: 'agent_run_error', ...fault });

function answerOf({ text, reward }: { text: string; reward?: number }) {
  const value = reward === undefined ? parseJson(text) : null;
  const answer = isObject(value) ? value : {};
  const failure_class = answer['_ng_failure_class'] ?? null;
  return {
    text,
    reward: reward ?? numberOf(answer['reward']),
    failure_class: typeof failure_class === 'string' ? failure_class : null,
    terminal: answer['_ng_failure_terminal'] === true,
    persist: answer['_ng_no_persist'] !== true,
  };
}
