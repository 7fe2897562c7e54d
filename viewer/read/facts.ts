import type { Rollout } from '../../src/client/show/read-batch.js';
import { textOf } from '../../src/model/content.js';
import { textOfAnswer } from '../../src/model/journal/calls.js';
import { meanLogprob } from '../../src/client/show/block.js';
import { lastSpoken } from '../../src/model/journal/last-words.js';
import { shortened } from '../../src/platform/errors.js';
import { plainLine } from '../../src/platform/plain.js';
import type { RolloutFacts } from '../documents.js';

/** Enough to tell answers that are the same from others. */
const ANSWER_CHARACTERS = 60;

/** What a list is filtered by, of a rollout's whole journal. */
export function factsOf({ row, repeat, trajectory, happenings }: Rollout): RolloutFacts {
  const { calls, observations, rewards, faults } = trajectory;
  const answers = calls.map(({ sampled }) => sampled);
  const seen = observations.map(({ message }) =>
    message === null ? 0 : textOf(message.content).length,
  );
  const segments = answers.flatMap((sampled) => sampled.segments);
  const failing = happenings.flatMap((one) => (one.kind === 'fault' ? (one.replica ?? []) : []));
  const { text } = lastSpoken(trajectory);
  const hasSpoken = calls.some(
    ({ answer, sampled }) => answer !== null || sampled.generation !== null,
  );
  return {
    row,
    repeat,
    replicas: each([...segments.map(({ replica }) => replica), ...failing]),
    versions: each(segments.map(({ policy_version }) => policy_version)),
    rewards,
    finish_reasons: each(answers.flatMap(({ generation }) => generation?.finish_reason ?? [])),
    fault_types: Object.keys(faults),
    tools: each(calls.flatMap(({ answer }) => answer?.tool_calls ?? []).map(({ name }) => name)),
    answer: text === '' && !hasSpoken ? null : shortened(plainLine(text).trim(), ANSWER_CHARACTERS),
    prompt_tokens: calls[0]?.prompt_length ?? 0,
    characters: calls.reduce((sum, call) => sum + textOfAnswer(call).length, 0),
    longest_observation: seen.reduce((most, length) => Math.max(most, length), 0),
    mean_logprob: meanLogprob(answers),
  };
}

const each = <T>(values: readonly T[]): T[] => [...new Set(values)];
