import { turnsOf, wholeAnswers } from '../../model/journal/calls.js';
import { lastResult } from '../../model/journal/lives.js';
import { isProgram, type Trajectory } from '../../model/journal/trajectory.js';
import { rolloutId } from '../../model/workflow-safe/rollout-id.js';
import type { Rollout } from './read-batch.js';
import { pathsOf, rulesOf } from '../../model/results/call-paths.js';
import { meanLogprob } from './block.js';
import { openAnswer, type Sampled } from '../../model/journal/open-answers.js';

/** One rollout for programs; ids and logprobs only on request. */
export function rolloutJson(rollout: Rollout, { tokens }: { tokens: boolean }): unknown {
  const { trajectory, entry, happenings, ...ref } = rollout;
  const { start } = trajectory;
  const open = openAnswer(trajectory);
  const prompt = start?.prompt ?? [];
  return {
    rollout_id: rolloutId(ref),
    ...entry,
    mean_logprob: meanLogprob(wholeAnswers(trajectory.calls)),
    inherited_tokens: trajectory.inherited_tokens,
    wasted_tokens: trajectory.wasted_tokens,
    prompt: prompt.map(({ token_ids, ...message }) => ({
      ...message,
      ...(tokens && { token_ids }),
    })),
    log: turnsOf(trajectory).map((turn, at) => {
      const { generation, observation } = turn;
      return {
        turn: at,
        content: generation.content,
        finish_reason: generation.finish_reason,
        stop_reason: generation.stop_reason,
        ...sampledJson(turn, { tokens }),
        restarted: trajectory.restarted_turns.includes(at),
        generate_s: generation.generate_s,
        observation: observation.message,
        reward: observation.reward,
        rewards: observation.rewards,
        terminated: observation.terminated,
        truncated: observation.truncated,
        step_s: observation.step_s,
      };
    }),
    open:
      open.token_ids.length === 0
        ? null
        : { content: open.generation?.content ?? open.text, ...sampledJson(open, { tokens }) },
    ...(isProgram(trajectory) && {
      calls: callsJson(trajectory, { tokens }),
      refused: trajectory.refused.map(({ life, code, limit = null, message }) => ({
        life,
        code,
        limit,
        message,
      })),
      lives: trajectory.lives.map(({ line, exit }) => ({
        life: line.life,
        exit: exit && { code: exit.code, signal: exit.signal, tail: exit.tail },
      })),
    }),
    agent_result: lastResult(trajectory)?.text ?? null,
    happenings,
  };
}

function callsJson(trajectory: Trajectory, { tokens }: { tokens: boolean }): object[] {
  const { calls } = trajectory;
  const { status } = pathsOf(trajectory, rulesOf(trajectory));
  return calls.map(({ line, from, answer, sampled, prompt_length, given }, call) => ({
    call,
    life: line.life,
    parent: line.parent,
    cause: line.cause ?? null,
    fork: from,
    prompt_tokens: prompt_length,
    news: line.news,
    content: answer?.content ?? sampled.text,
    tool_calls: answer?.tool_calls ?? [],
    malformed: answer?.malformed ?? 0,
    is_whole: answer !== null,
    given: Object.fromEntries(given),
    untrained: status[call] ?? null,
    ...sampledJson(sampled, { tokens }),
  }));
}

const sampledJson = (
  { token_ids, logprobs, segments }: Pick<Sampled, 'token_ids' | 'logprobs' | 'segments'>,
  { tokens }: { tokens: boolean },
): object => ({
  token_count: token_ids.length,
  mean_logprob: meanLogprob([{ logprobs }]),
  segments,
  ...(tokens && { token_ids, logprobs }),
});
