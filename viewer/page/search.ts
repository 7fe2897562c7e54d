import type { Hit, Message, RolloutDocument } from '../documents.js';
import type { Placed } from '../hits.js';
import { hitsAt } from '../hits.js';
import { keyOf } from './rows.js';

export const hitsIn = (rollout: RolloutDocument, words: string): Hit[] => [
  ...hitsAt(rollout.entry, { texts: textsOf(rollout), words }),
];

/** Hits in rollouts of these keys alone. */
export const hitsAmong = (hits: readonly Hit[], keys: ReadonlySet<string>): Hit[] =>
  hits.filter((hit) => keys.has(keyOf(hit)));

/** Texts of a rollout with the names of their places, in reading order. */
export function textsOf(rollout: RolloutDocument): Placed[] {
  const messages = (place: string, list: readonly Message[]) =>
    list.map((message) => ({ place, text: textOf(message) }));
  return [
    ...messages('prompt', rollout.prompt),
    ...rollout.calls.flatMap(({ number, news, answer, observation }) => [
      ...messages(`call ${number}`, news),
      {
        place: `answer ${number}`,
        text: [answer.reasoning, answer.text].filter(Boolean).join('\n'),
      },
      ...answer.tool_calls.map((call) => ({
        place: `answer ${number}`,
        text: `${call.name} ${call.arguments}`,
      })),
      ...messages(`observation ${number}`, observation?.message ? [observation.message] : []),
    ]),
    ...messages('verdict', rollout.verdict?.message ? [rollout.verdict.message] : []),
    ...rollout.happenings.flatMap((one) =>
      one.kind === 'fault' ? [{ place: 'fault', text: `${one.type}: ${one.message}` }] : [],
    ),
  ];
}

const textOf = ({ parts }: Message): string =>
  parts.map((part) => (part.kind === 'text' ? part.text : `[${part.name}]`)).join('\n');
