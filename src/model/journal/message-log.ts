import type { LineOf } from '../journal.js';
import type { LogMessage } from '../results/row-parts.js';
import { turnsOf } from './calls.js';
import type { Sampled } from './open-answers.js';
import type { Trajectory } from './trajectory.js';

/** Prompt and whole turns, as trainers read them. */
export function messageLog(trajectory: Trajectory): LogMessage[] {
  const { start } = trajectory;
  if (start === null) return [];
  return [
    ...start.prompt,
    ...turnsOf(trajectory).flatMap(({ generation, observation, ...sampled }): LogMessage[] => [
      { role: 'assistant', content: generation.content, ...sampledOf(sampled, start) },
      ...(observation.message === null
        ? []
        : [
            {
              ...observation.message,
              token_ids: observation.token_ids,
              ...(observation.pictures !== undefined && { pictures: observation.pictures }),
            },
          ]),
    ]),
  ];
}

/** A message's tokens, with the logprobs that the request asked for. */
export function sampledOf(
  { token_ids, logprobs, top_logprobs }: Pick<Sampled, 'token_ids' | 'logprobs' | 'top_logprobs'>,
  { settings: { generation } }: LineOf<'start'>,
): Omit<LogMessage, 'role' | 'content'> {
  return {
    token_ids,
    ...(generation.include_logprobs ? { generation_logprobs: logprobs } : { sampled: true }),
    ...(generation.top_logprobs > 0 && { generation_top_logprobs: top_logprobs }),
  };
}
