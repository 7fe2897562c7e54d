import { AgentSample } from '../model/agent/sample.js';
import type { RolloutRef } from '../model/batch-request.js';
import { textOf } from '../model/content.js';
import { failuresBefore } from '../model/journal/lives.js';
import { lastSpoken } from '../model/journal/last-words.js';
import { openAnswer } from '../model/journal/open-answers.js';
import { openTokens } from '../model/journal/standing.js';
import { isUntrained, overlongOf } from '../model/journal/outcome.js';
import { nextStep } from '../model/turn/stop-rules.js';
import type { Trajectory } from '../model/journal/trajectory.js';
import { isProgram, totalsOf } from '../model/journal/trajectory.js';
import { rolloutId } from '../model/workflow-safe/rollout-id.js';
import { VALID_STOP_REASONS } from '../model/workflow-safe/stop-reasons.js';
import { plainLine } from '../platform/plain.js';
import type { Place } from './attempt.js';
import type { RolloutFacts, RolloutResult, TurnProgress } from './contract.js';
import type { Dependencies, Deployment } from './dependencies.js';

const PREVIEW_LENGTH = 120;

/** What a workflow learns about a trajectory: totals, never tokens. */
export function progressOf(trajectory: Trajectory): TurnProgress {
  const { end, total_reward } = trajectory;
  const { turn_count, total_tokens } = totalsOf(trajectory);
  const next = end === null ? nextStep(trajectory) : 'generate';
  return {
    turn: turn_count,
    total_reward,
    total_tokens,
    phase: typeof next === 'object' ? 'generate' : next,
    ended: end?.stop_reason ?? null,
    ...marksOf(trajectory),
    preview: preview(trajectory),
  };
}

/** Where a rollout is while an attempt plays it, in the middle of an answer too. */
export function placeIn(trajectory: Trajectory): Place {
  const { turn_count: turn, total_tokens } = totalsOf(trajectory);
  const { start, standing } = trajectory;
  const tokens = total_tokens + openTokens(standing);
  return { turn, tokens, asks: start?.plays === 'agent' ? 'agent' : standing.asks };
}

/** null: the journal has no start. */
export function factsOf(trajectory: Trajectory): RolloutFacts | null {
  const { start, extra_env_info } = trajectory;
  if (start === null) return null;
  const { task_name, settings, plays } = start;
  const facts = { task_name, policy_version: settings.policy_version };
  const sample = plays === 'agent' ? AgentSample.safeParse(extra_env_info).data : undefined;
  if (sample === undefined) return facts;
  const { agent: name, task_index, rollout_index, attempt_index } = sample;
  const attempt = attempt_index + failuresBefore(trajectory);
  return { ...facts, agent: { name, task_index, rollout_index, attempt } };
}

export function unlistedOf({ unlisted }: Pick<Dependencies, 'unlisted'>): {
  unlisted?: readonly string[];
} {
  const names = unlisted();
  return names.length === 0 ? {} : { unlisted: names };
}

/** The address of a batch's page or a rollout's, for people in the Web UI: without the token. */
export const pageOf = (
  id: string,
  { deployment: { viewer_url } }: { deployment: Pick<Deployment, 'viewer_url'> },
): { page?: string } => (viewer_url === null ? {} : { page: `${viewer_url}/#/${id}` });

export function resultOf(ref: RolloutRef, trajectory: Trajectory): RolloutResult {
  return {
    rollout_id: rolloutId(ref),
    stop_reason: trajectory.end?.stop_reason ?? 'failed',
    ...totalsOf(trajectory),
    ...marksOf(trajectory),
  };
}

function marksOf(trajectory: Trajectory): Pick<TurnProgress, 'attempt' | 'dropped' | 'untrained'> {
  const { end, lives } = trajectory;
  const attempt = lives.length === 0 ? undefined : factsOf(trajectory)?.agent?.attempt;
  const isValid = end !== null && VALID_STOP_REASONS.has(end.stop_reason);
  return {
    ...(attempt !== undefined && { attempt }),
    ...(end !== null && overlongOf(trajectory) === 'drop' && { dropped: true }),
    // Only of what becomes a row.
    ...(isValid && isUntrained(trajectory) && { untrained: true }),
  };
}

/** The end of the last message: it holds an action or an answer, where a thought holds its beginning. */
function preview(trajectory: Trajectory): string {
  const said = isProgram(trajectory) ? undefined : openAnswer(trajectory).generation?.content;
  const { observation, text: answered } = lastSpoken(trajectory);
  const seen = textOf(observation?.message?.content ?? '');
  const text = said ?? (isProgram(trajectory) && seen === '' ? answered : seen);
  const end = text
    .slice(-20 * PREVIEW_LENGTH)
    .replace(/\s+/g, ' ')
    .trim();
  return plainLine(end.slice(-PREVIEW_LENGTH));
}
