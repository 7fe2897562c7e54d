import type { Hit, Message, RolloutDocument } from './documents.js';

/** What a search finds in a rollout, at a server and in a browser. */

/** A text of a rollout, with the name of its place. */
export interface Placed {
  place: string;
  text: string;
}

const MOST_IN_A_ROLLOUT = 20;

export function hitsIn(rollout: RolloutDocument, words: string): Hit[] {
  const hits: Hit[] = [];
  for (const hit of hitsAt(rollout.entry, { texts: textsOf(rollout), words })) {
    hits.push(hit);
    if (hits.length >= MOST_IN_A_ROLLOUT) break;
  }
  return hits;
}

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
    ...(rollout.agent_result === null
      ? []
      : [{ place: 'agent result', text: rollout.agent_result }]),
  ];
}

const textOf = ({ parts }: Message): string =>
  parts.map((part) => (part.kind === 'text' ? part.text : `[${part.name}]`)).join('\n');

/** As much of a text as a line shows beside what was found. */
const AROUND = 60;

/** Where these texts have the words, whatever their case: once a text. */
function* hitsAt(
  { row, repeat }: Pick<Hit, 'row' | 'repeat'>,
  { texts, words }: { texts: Iterable<Placed>; words: string },
): Generator<Hit> {
  if (words === '') return;
  const pattern = new RegExp(words.replace(/[\\^$.*+?()[\]{}|/-]/g, String.raw`\$&`), 'i');
  for (const { place, text } of texts) {
    const match = pattern.exec(text);
    if (match === null) continue;
    const [found] = match;
    const end = match.index + found.length;
    const before = text.slice(Math.max(0, match.index - AROUND), match.index);
    yield { row, repeat, place, before, found, after: text.slice(end, end + AROUND) };
  }
}
