import { textOf } from '../../model/content.js';
import { textOfAnswer } from '../../model/journal/calls.js';
import { outcomeOf } from '../../model/journal/outcome.js';
import type { Trajectory } from '../../model/journal/trajectory.js';

/** Where two rollouts part. What they have alike is absent. */

/** The first id that differs; null: one has no more. */
interface TokenParting {
  /** Or an agent's call. */
  turn: number;
  /** Of what the turn was asked, behind the turn before, or of what was sampled. */
  of: 'prompt' | 'answer';
  index: number;
  a: number | null;
  b: number | null;
}

/** The first text that differs: the policy's, or what the environment has said to it; null: one has none. */
interface TextParting {
  turn: number;
  of: 'answer' | 'observation';
  a: string | null;
  b: string | null;
}

export interface Parting {
  token?: TokenParting;
  text?: TextParting;
  reward?: { a: number; b: number };
  /** The failure's type, or why it ended. */
  stop_reason?: { a: string; b: string };
}

export function partingOf(a: Trajectory, b: Trajectory): Parting {
  const token = tokenOf(a, b);
  const text = textAt(a, b);
  const [ended, other] = [endOf(a), endOf(b)];
  return {
    ...(token !== null && { token }),
    ...(text !== null && { text }),
    ...(a.total_reward !== b.total_reward && {
      reward: { a: a.total_reward, b: b.total_reward },
    }),
    ...(ended !== other && { stop_reason: { a: ended, b: other } }),
  };
}

export const isParted = (parting: Parting): boolean => Object.keys(parting).length > 0;

function tokenOf(a: Trajectory, b: Trajectory): TokenParting | null {
  const turns = Math.max(a.calls.length, b.calls.length);
  for (let turn = 0; turn < turns; turn++) {
    const [one, other] = [a.calls[turn], b.calls[turn]];
    for (const of of ['prompt', 'answer'] as const) {
      const idsOf = (call: typeof one): readonly number[] =>
        (of === 'prompt' ? call?.line.prompt_ids : call?.sampled.token_ids) ?? [];
      const [ours, theirs] = [idsOf(one), idsOf(other)];
      const index = firstDifference(ours, theirs);
      if (index !== null)
        return { turn, of, index, a: ours[index] ?? null, b: theirs[index] ?? null };
    }
  }
  return null;
}

/** null: they are the same. */
function firstDifference(ours: readonly number[], theirs: readonly number[]): number | null {
  const longer = ours.length > theirs.length ? ours : theirs;
  const index = longer.findIndex((_, at) => ours[at] !== theirs[at]);
  return index === -1 ? null : index;
}

function textAt(a: Trajectory, b: Trajectory): TextParting | null {
  const turns = Math.max(a.calls.length, b.calls.length);
  for (let turn = 0; turn < turns; turn++)
    for (const of of ['answer', 'observation'] as const) {
      const [ours, theirs] = [saidIn(a, { turn, of }), saidIn(b, { turn, of })];
      if (ours !== theirs) return { turn, of, a: ours, b: theirs };
    }
  return null;
}

function saidIn(
  { calls, observations }: Trajectory,
  { turn, of }: Pick<TextParting, 'turn' | 'of'>,
): string | null {
  if (of === 'observation') {
    const message = observations[turn]?.message ?? null;
    return message === null ? null : textOf(message.content);
  }
  const call = calls[turn];
  const said = call === undefined ? '' : textOfAnswer(call);
  return said === '' ? null : said;
}

function endOf(trajectory: Trajectory): string {
  const { stop_reason, failure } = outcomeOf(trajectory, { stop_reason: 'cancelled' });
  return failure?.type ?? stop_reason;
}
