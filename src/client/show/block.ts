import type { Sampled, Segment } from '../../model/journal/open-answers.js';
import { plainLine } from '../../platform/plain.js';
import { formatCount } from '../number-text.js';
import type { Line, TextStyle } from '../text-line.js';
import { renderLine } from '../text-line.js';
import { wrapped } from './wrapping.js';

export interface PageOptions {
  style: TextStyle;
  /** Includes the ids and logprobs of sampled tokens. */
  tokens: boolean;
  /** First and last turn; null: all, and the prompt. */
  turns: { first: number; last: number } | null;
  /** Only this call of an agent, whole; absent: all, a line for each. */
  call?: number | null;
}

export const isShown = (turn: number, { turns }: Pick<PageOptions, 'turns'>): boolean =>
  turns === null || (turn >= turns.first && turn <= turns.last);

/** A complete piece of the page; following a rollout prints each once. */
export interface Block {
  key: string;
  lines: string[];
}

type Tokens = Pick<Sampled, 'token_ids' | 'logprobs'>;

export const sampledFacts = (sampled: Tokens): string[] => [
  formatCount(sampled.token_ids.length, 'token'),
  ...(sampled.logprobs.length === 0 ? [] : [`logprob ${meanOf([sampled])}`]),
];

export const meanOf = (sampled: readonly Tokens[]): string =>
  meanLogprob(sampled)?.toFixed(3) ?? '-';

/** Over all tokens of these turns; null: there is no logprob. */
export function meanLogprob(sampled: readonly Pick<Sampled, 'logprobs'>[]): number | null {
  let [sum, count] = [0, 0];
  for (const { logprobs } of sampled) {
    for (const logprob of logprobs) sum += logprob;
    count += logprobs.length;
  }
  return count === 0 ? null : sum / count;
}

/** Where another request continued, or other weights. */
export const seams = (segments: readonly Segment[]): string[] =>
  segments.slice(1).map(({ start, replica, policy_version }, at) => {
    const before = segments[at];
    const version =
      before?.policy_version === policy_version
        ? ''
        : `, version ${before?.policy_version ?? 'unknown'} then ${policy_version ?? 'unknown'}`;
    const where = before?.replica === replica ? 'the same replica' : replica;
    return `seam at token ${start}: continues at ${where}${version}`;
  });

/** The first version, then `id:logprob`, with the position at the beginning of each line. Seams say where it changes. */
export function tokenTable({ token_ids, logprobs, segments: [first] }: Sampled): string[] {
  const PER_LINE = 6;
  const lines = first === undefined ? [] : [`version ${first.policy_version ?? 'unknown'}`];
  for (let from = 0; from < token_ids.length; from += PER_LINE) {
    const cells = token_ids.slice(from, from + PER_LINE).map((id, at) => {
      const logprob = logprobs[from + at];
      return `${id}${logprob === undefined ? '' : `:${logprob.toFixed(3)}`}`.padEnd(14);
    });
    lines.push(`${String(from).padStart(6)}  ${cells.join('')}`.trimEnd());
  }
  return lines;
}

export function block(
  key: string,
  {
    title,
    text,
    notes = [],
    style,
  }: { title: string; text: string; notes?: string[]; style: TextStyle },
): Block {
  const lines: Line[] = [
    [],
    ...wrapped(plainLine(`-- ${title}`), style.columns).map((line): Line => [
      { text: line, ink: 'bold' },
    ]),
    ...(text === '' ? [] : wrapped(text, style.columns).map((line): Line => [line])),
    ...notes.map((note): Line => [{ text: note, ink: 'dim' }]),
  ];
  return { key, lines: lines.map((line) => renderLine(line, style)) };
}
