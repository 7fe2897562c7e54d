import type { Row } from '../../src/model/results/row.js';
import type { Recorded } from './recording-proxy.js';

/** What was sampled in a row, each answer behind all ids before it. */

export type Answer = Recorded;

export const written = ({ prompt_ids, token_ids }: Recorded): string =>
  JSON.stringify([prompt_ids, token_ids]);

/** Of the main path and of all sequences beside it. */
export function answersIn({ message_log, sequences = [] }: Row): Answer[] {
  const paths = new Map<number, { ids: number[]; answers: Answer[] }>();
  paths.set(0, answersBehind([], message_log));
  for (const { sequence, parent, fork, message_log: beyond } of sequences)
    paths.set(sequence, answersBehind(paths.get(parent ?? 0)?.ids.slice(0, fork) ?? [], beyond));
  return [...paths.values()].flatMap(({ answers }) => answers);
}

function answersBehind(
  before: readonly number[],
  log: Row['message_log'],
): { ids: number[]; answers: Answer[] } {
  const ids = [...before];
  const answers = log.flatMap(({ token_ids, generation_logprobs }) => {
    const prompt_ids = [...ids];
    ids.push(...token_ids);
    return generation_logprobs === undefined
      ? []
      : [{ prompt_ids, token_ids, logprobs: generation_logprobs }];
  });
  return { ids, answers };
}
