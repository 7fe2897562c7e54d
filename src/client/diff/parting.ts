import { textOf } from '../../model/content.js';
import { textOfAnswer } from '../../model/journal/calls.js';
import { outcomeOf } from '../../model/journal/outcome.js';
import type { Trajectory } from '../../model/journal/trajectory.js';
import type { TokenParting, TurnIds } from './first-apart.js';
import { firstApart } from './first-apart.js';

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
  const token = firstApart(idsOf(a), idsOf(b));
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

/** Of each call what it was asked, behind the call before, and what was sampled. */
const idsOf = ({ calls }: Trajectory): TurnIds[] =>
  calls.flatMap(({ line, sampled }, turn): TurnIds[] => [
    { turn, of: 'prompt', ids: line.prompt_ids },
    { turn, of: 'answer', ids: sampled.token_ids },
  ]);

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
