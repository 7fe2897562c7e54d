import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Tokens } from '../documents.js';
import type { Seam } from './cells.js';
import { runAt } from './cells.js';
import { Blanks, Shown } from './text.js';
import { whole } from './words.js';

/** Pieces that are laid out together. */
const BLOCK = 400;

/** What streamed, with its special tokens; the piece of the token that is looked at is marked. */
export function Sampled({ tokens, token }: { tokens: Tokens; token: number | null }): JSX.Element {
  const marked = token === null ? -1 : runAt(tokens.pieces, token);
  return (
    <div class="raw" dir="auto">
      {Array.from({ length: Math.ceil(tokens.pieces.length / BLOCK) }, (_, index) => {
        const from = index * BLOCK;
        const isHere = marked >= from && marked < from + BLOCK;
        return <Block key={index} tokens={tokens} from={from} marked={isHere ? marked : -1} />;
      })}
      <Blanks text={tokens.pieces.map((piece) => piece.text).join('')} />
    </div>
  );
}

/** The same element while nothing of it changes: a step in the strip draws two of these again. */
function Block({
  tokens,
  from,
  marked,
}: {
  tokens: Tokens;
  from: number;
  marked: number;
}): JSX.Element {
  return useMemo(
    () => (
      <div class={tokens.pieces.length > BLOCK ? 'block' : ''}>
        {stretchesOf(tokens, { from, to: from + BLOCK, marked }).map(
          ({ text, seam, isMarked }, index) => (
            <span key={index} class={isMarked ? 'marked' : ''}>
              {seam !== null && <SeamMark seam={seam} />}
              <Shown text={text} />
            </span>
          ),
        )}
      </div>
    ),
    [tokens, from, marked],
  );
}

interface Stretch {
  text: string;
  /** Before it. */
  seam: Seam | null;
  isMarked: boolean;
}

/** Pieces between seams and marks, as one text: an element for each would be most of a page. */
function stretchesOf(
  { pieces, requests }: Tokens,
  { from, to, marked }: { from: number; to: number; marked: number },
): Stretch[] {
  const stretches: Stretch[] = [];
  for (const [at, piece] of pieces.slice(from, to).entries()) {
    const isMarked = from + at === marked;
    const request = requests[runAt(requests, piece.end - 1)];
    const begins = request !== undefined && request.start > 0 && request.start >= piece.start;
    const last = stretches.at(-1);
    if (last === undefined || begins || isMarked !== last.isMarked)
      stretches.push({
        text: piece.text,
        seam: begins ? { ...request, token: request.start } : null,
        isMarked,
      });
    else last.text += piece.text;
  }
  return stretches;
}

export const SeamMark = ({ seam }: { seam: Seam }): JSX.Element => (
  <span class="seam">
    ‖ seam at token {whole(seam.token + 1)}: sampled on by <Shown text={seam.replica} />, version{' '}
    <Shown text={seam.version ?? 'none'} />
  </span>
);
