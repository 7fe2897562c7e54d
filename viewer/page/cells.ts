import type { Answer, Tokens } from '../documents.js';
import { decimal } from './words.js';

/** What colours a token's cell. */
export const COLOURINGS = ['logprob', 'version', 'trained', 'replica'] as const;
export type Colouring = (typeof COLOURINGS)[number];

/** In pixels, with the gap behind it. */
export const CELL_WIDTH = 10;
export const CELL_HEIGHT = 18;

export const columnsIn = (width: number): number => Math.max(1, Math.floor(width / CELL_WIDTH));

/** Token at a point of the strip; null: there is none. */
export function tokenAt(
  point: { x: number; y: number },
  { columns, count }: { columns: number; count: number },
): number | null {
  const column = Math.floor(point.x / CELL_WIDTH);
  const token = Math.floor(point.y / CELL_HEIGHT) * columns + column;
  return column < 0 || column >= columns || token < 0 || token >= count ? null : token;
}

/** Where a key leads from a token; null: it is no key of a strip. */
export function tokenAfter(
  key: string,
  { token, columns, count }: { token: number; columns: number; count: number },
): number | null {
  const to: Record<string, number> = {
    ArrowRight: token + 1,
    ArrowLeft: token - 1,
    ArrowDown: token + columns,
    ArrowUp: token - columns,
    PageDown: token + 8 * columns,
    PageUp: token - 8 * columns,
    Home: 0,
    End: count - 1,
  };
  const next = Object.hasOwn(to, key) ? to[key] : undefined;
  return next === undefined ? null : Math.max(0, Math.min(count - 1, next));
}

/** Which of these runs, in ascending order, holds a token; -1: none. */
export function runAt(runs: readonly { start: number; end: number }[], token: number): number {
  let [low, high] = [0, runs.length - 1];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const run = runs[middle];
    if (run === undefined) return -1;
    if (token < run.start) high = middle - 1;
    else if (token >= run.end) low = middle + 1;
    else return middle;
  }
  return -1;
}

/** How unlikely the token was: 0 certain, 1 at a logprob of -6 or less. */
const surprise = (logprob: number): number => Math.max(0, Math.min(1, -logprob / 6));

const nameOf = ({ version, replica }: Tokens['requests'][number], colouring: Colouring): string =>
  colouring === 'version' ? (version ?? 'none') : replica;

/** What is coloured by name: versions or replicas of a rollout, in the order in which they first sampled. */
export const namesIn = (all: readonly Tokens[], colouring: Colouring): string[] => [
  ...new Set(all.flatMap(({ requests }) => requests.map((one) => nameOf(one, colouring)))),
];

/** Names differ in height, too, for those who do not see colours. */
export const fillOf = (shade: number): number => 1 - 0.2 * (shade % 4);

/** Which colour of a palette a token has, and how much of its cell is filled. */
export function cellOf(
  tokens: Tokens,
  { token, colouring, names }: { token: number; colouring: Colouring; names: readonly string[] },
): { shade: number; fill: number } {
  if (colouring === 'logprob') {
    const logprob = tokens.logprobs[token];
    if (logprob === undefined) return { shade: 0, fill: 1 };
    const unlikely = surprise(logprob);
    return { shade: Math.min(4, Math.floor(unlikely * 5)), fill: 0.15 + 0.85 * unlikely };
  }
  if (colouring === 'trained')
    return runAt(tokens.trained, token) === -1 ? { shade: 1, fill: 0.15 } : { shade: 0, fill: 1 };
  const request = tokens.requests[runAt(tokens.requests, token)];
  const shade = request === undefined ? 0 : names.indexOf(nameOf(request, colouring));
  return { shade, fill: fillOf(shade) };
}

/** A token in words, for the readout and for those who do not see the strip. */
export function tokenFacts(tokens: Tokens, token: number): [string, string][] {
  const logprob = tokens.logprobs[token];
  const request = tokens.requests[runAt(tokens.requests, token)];
  const facts: [string, string][] = [
    ['token', `${token + 1} of ${tokens.ids.length}`],
    ['id', String(tokens.ids[token] ?? '–')],
  ];
  if (logprob !== undefined)
    facts.push(['logprob', decimal(logprob)], ['probability', decimal(Math.exp(logprob))]);
  if (request !== undefined)
    facts.push(['version', request.version ?? 'none'], ['replica', request.replica]);
  facts.push(['trains', runAt(tokens.trained, token) === -1 ? 'no' : 'yes']);
  return facts;
}

/** Characters before a token. Text lags ids, so it is where the token's piece begins. */
function offsetOf({ pieces }: Tokens, token: number): number {
  let offset = 0;
  for (const { end, text } of pieces) {
    if (end > token) break;
    offset += text.length;
  }
  return offset;
}

export interface Seam {
  token: number;
  replica: string;
  version: string | null;
}

/** Where another request went on. */
export const seamsOf = ({ tokens }: Answer): Seam[] =>
  tokens.requests
    .filter(({ start }) => start > 0)
    .map(({ start, replica, version }) => ({ token: start, replica, version }));

/** The answer's text, cut at its seams. One piece, if the text is not what streamed, as behind a parser of thoughts. */
export function segmentsOf(answer: Answer): { text: string; seam: Seam | null }[] {
  const { text, tokens } = answer;
  const streamed = tokens.pieces.map((piece) => piece.text).join('');
  const seams = streamed.startsWith(text) || text.startsWith(streamed) ? seamsOf(answer) : [];
  const starts = seams.map(({ token }) => Math.min(text.length, offsetOf(tokens, token)));
  return [null, ...seams].map((seam, index) => ({
    text: text.slice(starts[index - 1] ?? 0, starts[index] ?? text.length),
    seam,
  }));
}
