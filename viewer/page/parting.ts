import type { TokenParting, TurnIds } from '../../src/client/diff/first-apart.js';
import { firstApart } from '../../src/client/diff/first-apart.js';
import type { RolloutDocument } from '../documents.js';
import type { Placed } from '../hits.js';
import { textsOf } from '../hits.js';

export interface Parting {
  /** Texts that all members have. */
  common: Placed[];
  /** For each member: what comes behind the common part of the text in which they part. */
  rests: { place: string; before: string; rest: string; others: Placed[] }[];
}

/** Shown of what is common in the text in which they part. */
const LEAD = 120;

/** What members of a group have in common from their beginning, and how each goes on. */
export function partingOf(members: readonly (readonly Placed[])[]): Parting {
  const [first = [], ...others] = members;
  const isCommon = (segment: Placed, index: number): boolean =>
    others.every((other) => isSame(other[index], segment));
  const at = first.findIndex((segment, index) => !isCommon(segment, index));
  // The same texts to the end of the shortest.
  const shared = at === -1 ? first.length : at;
  const texts = members.map((segments) => segments[shared]?.text ?? '');
  const offset = commonLength(texts);
  return {
    common: first.slice(0, shared),
    rests: members.map((segments) => {
      const { place = 'end', text = '' } = segments[shared] ?? {};
      const from = Math.max(0, offset - LEAD);
      const before = `${from > 0 ? '…' : ''}${text.slice(from, offset)}`;
      return { place, before, rest: text.slice(offset), others: segments.slice(shared + 1) };
    }),
  };
}

const isSame = (a: Placed | undefined, b: Placed): boolean =>
  a?.place === b.place && a.text === b.text;

/** Characters that all texts begin with, without half a character at the end. */
export function commonLength(texts: readonly string[]): number {
  const [first = '', ...others] = texts;
  let length = 0;
  while (length < first.length && others.every((text) => text[length] === first[length])) length++;
  const last = first.charCodeAt(length - 1);
  return length > 0 && last >= 0xd800 && last < 0xdc00 ? length - 1 : length;
}

/** The first token that two rollouts sampled differently, or that one of them alone has; null: there is none. */
export const tokenParting = (a: RolloutDocument, b: RolloutDocument): TokenParting | null =>
  firstApart(sampledIn(a), sampledIn(b));

const sampledIn = ({ calls }: RolloutDocument): TurnIds[] =>
  calls.map(({ number, answer }) => ({ turn: number, of: 'answer', ids: answer.tokens.ids }));

export const segmentsOf = (rollout: RolloutDocument): Placed[] =>
  textsOf(rollout).filter(
    ({ place, text }) => place !== 'fault' && (text !== '' || place.startsWith('answer')),
  );
