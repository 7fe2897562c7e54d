import type { Hit, Message, RolloutDocument } from '../documents.js';
import { keyOf } from './rows.js';

/** Characters on either side of what was found. */
const AROUND = 60;

export function hitsIn(rollout: RolloutDocument, text: string): Hit[] {
  const { row, repeat } = rollout.entry;
  const wanted = text.toLowerCase();
  return textsOf(rollout).flatMap(({ place, text: whole }) => {
    const at = whole.toLowerCase().indexOf(wanted);
    if (wanted === '' || at === -1) return [];
    const end = at + wanted.length;
    const before = whole.slice(Math.max(0, at - AROUND), at);
    return [
      {
        row,
        repeat,
        place,
        before,
        found: whole.slice(at, end),
        after: whole.slice(end, end + AROUND),
      },
    ];
  });
}

/** Hits in rollouts of these keys alone. */
export const hitsAmong = (hits: readonly Hit[], keys: ReadonlySet<string>): Hit[] =>
  hits.filter((hit) => keys.has(keyOf(hit)));

/** Texts of a rollout with the names of their places, in reading order. */
export function textsOf(rollout: RolloutDocument): { place: string; text: string }[] {
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
