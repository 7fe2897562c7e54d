import type { JournalLine } from '../../../src/model/journal.js';
import type { Trajectory } from '../../../src/model/journal/trajectory.js';
import { applyLine, emptyTrajectory } from '../../../src/model/journal/trajectory.js';
import { isKnown } from '../../../src/model/journal/calls.js';
import { askedAgain } from '../../bed/asked-again.js';
import type { Stream } from '../request-streams.js';
import { answerBytes, callIn } from './answers.js';
import type { Beyond, Pace } from './beyond.js';
import { beyondJournals } from './beyond.js';
import type { Heard, HeardTry } from './heard.js';
import type { Struck } from './kills.js';

/** What was left of a batch of agents, and what of it is wrong. */

export interface Evidence {
  requested: number;
  rows: readonly { rollout_id: string; row: number; repeat: number; total_reward: number }[];
  failures: readonly { rollout_id: string; failure?: { message: string } | null }[];
  /** By rollout id. */
  journals: ReadonlyMap<string, readonly JournalLine[]>;
  heard: readonly Heard[];
  streams: readonly Stream[];
  struck: readonly Struck[];
  /** By row: what it is worth without kills. null: this is that run. */
  rewards: ReadonlyMap<number, number> | null;
  /** Answers of one rollout without kills; null: of an agent that is not ours, which writes down nothing. */
  answers: number | null;
  pace: Pace;
}

export interface Judged extends Beyond {
  /** The agent wrote down what it got. */
  logs: boolean;
  rollouts: number;
  lost: number;
  duplicated: number;
  lives: number;
  calls: number;
  /** Requests of agents, and those of them whose answer they used. */
  requests: number;
  answers_used: number;
  /** Requests for an answer that was whole before their writer's claim. */
  sampled_again: number;
  /** Answers of the last lives that are not their journals', byte for byte. */
  different: string[];
  /** What some life was given, and is not the beginning of the answer. */
  taken_back: string[];
  /** Rollouts with more samples than without kills, or fewer by more than one a life. */
  miscounted: string[];
  diverged: number;
  /** Rollouts whose last life left a call behind. */
  abandoned: number;
  rewards_wrong: string[];
}

export function judge(evidence: Evidence): Judged {
  const { rows, failures, journals, requested, heard } = evidence;
  const folded = new Map(Array.from(journals, ([id, lines]) => [id, foldOf(lines)]));
  const all = [...folded.values()];
  const ids = [...rows, ...failures].map(({ rollout_id }) => rollout_id);
  const calls = all.flatMap((trajectory) => trajectory.calls);
  const tries = heard.flatMap((life) => life.tries);
  const { answers } = evidence;
  return {
    logs: answers !== null,
    rollouts: rows.length,
    lost: requested - new Set(rows.map(({ rollout_id }) => rollout_id)).size,
    duplicated: ids.length - new Set(ids).size,
    lives: all.reduce((sum, { lives }) => sum + lives.length, 0),
    calls: calls.length,
    requests: tries.length,
    answers_used: tries.filter(({ whole }) => whole).length,
    ...beyondJournals(folded, evidence),
    sampled_again: askedAgain(evidence.streams, journals).length,
    ...compared(heard, folded),
    miscounted:
      answers === null ? [] : [...folded].flatMap(([id, one]) => miscounted(id, { one, answers })),
    diverged: calls.filter(({ line }) => line.cause === 'diverged').length,
    abandoned: all.filter((one) => one.calls.some((call) => !isKnown(call, one.lives.length)))
      .length,
    rewards_wrong: rewardsWrong(evidence),
  };
}

function foldOf(lines: readonly JournalLine[]): Trajectory {
  const trajectory = emptyTrajectory();
  for (const line of lines) applyLine(trajectory, line);
  return trajectory;
}

function compared(
  heard: readonly Heard[],
  folded: ReadonlyMap<string, Trajectory>,
): Pick<Judged, 'different' | 'taken_back'> {
  const different: string[] = [];
  const taken_back: string[] = [];
  for (const { rollout_id, life, tries } of heard) {
    const trajectory = folded.get(rollout_id) ?? emptyTrajectory();
    const isLast = life === trajectory.lives.length;
    for (const one of tries) {
      const wrong = wrongIn(one, { rollout_id, trajectory });
      if (wrong === null) continue;
      const said = `${rollout_id} life ${life} request ${one.name} try ${one.number}: ${wrong}`;
      (one.whole && isLast ? different : taken_back).push(said);
    }
  }
  return { different, taken_back };
}

/** null: it is the answer, or the beginning of it. */
function wrongIn(
  { status, bytes, stream, whole }: HeardTry,
  { rollout_id, trajectory }: { rollout_id: string; trajectory: Trajectory },
): string | null {
  if (status !== 200 || bytes === '') return null;
  const turn = callIn(bytes);
  // Fewer bytes than an id has say nothing.
  if (turn === null) return whole || bytes.length > 400 ? 'expected an answer with an id' : null;
  const expected = answerBytes(trajectory, { rollout_id, turn, stream });
  if (expected === null) return `call ${turn} has no answer`;
  if (whole ? bytes === expected : expected.startsWith(bytes)) return null;
  let at = 0;
  while (bytes[at] === expected[at]) at += 1;
  return `call ${turn}: at byte ${at} of ${bytes.length} expected ${JSON.stringify(expected.slice(at, at + 40))}, got ${JSON.stringify(bytes.slice(at, at + 40))}`;
}

function miscounted(
  id: string,
  { one: { calls, lives }, answers }: { one: Trajectory; answers: number },
): string[] {
  const fewest = answers - (lives.length - 1);
  if (calls.length <= answers && calls.length >= fewest) return [];
  return [
    `${id}: expected ${answers} samples (${fewest} or more with ${lives.length} lives), got ${calls.length}`,
  ];
}

function rewardsWrong({ rows, rewards }: Pick<Evidence, 'rows' | 'rewards'>): string[] {
  if (rewards === null) return [];
  return rows.flatMap(({ row, rollout_id, total_reward }) => {
    const expected = rewards.get(row);
    return expected === total_reward
      ? []
      : [`${rollout_id}: expected reward ${expected ?? 'none'}, got ${total_reward}`];
  });
}
