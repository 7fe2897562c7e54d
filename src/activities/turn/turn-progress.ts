import { nextStep } from '../../model/turn/stop-rules.js';
import type { Trajectory } from '../../model/trajectory.js';
import { plainLine } from '../../platform/plain.js';
import type { TurnProgress } from '../contract.js';

const PREVIEW_LENGTH = 120;

/** What a workflow is told of a trajectory: totals, never tokens. */
export function progressOf(trajectory: Trajectory): TurnProgress {
  const next =
    trajectory.end === null ? nextStep(trajectory) : { ended: trajectory.end.stop_reason };
  return {
    turn: trajectory.turns.length,
    total_reward: trajectory.total_reward,
    total_tokens: trajectory.assistant_tokens + trajectory.env_tokens,
    phase: typeof next === 'object' ? 'generate' : next,
    ended: typeof next === 'object' ? next.ended : null,
    preview: preview(trajectory),
  };
}

/** The end of what was said last: an action or an answer stands there, not in a thought's beginning. */
function preview({ open, turns }: Trajectory): string {
  const text = open.line?.content ?? turns.at(-1)?.observation.message.content ?? '';
  const end = text
    .slice(-20 * PREVIEW_LENGTH)
    .replace(/\s+/g, ' ')
    .trim();
  return plainLine(end.slice(-PREVIEW_LENGTH));
}
