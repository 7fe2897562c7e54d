import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Tokens } from '../documents.js';
import type { Seam } from './cells.js';
import { runAt } from './cells.js';
import { Shown } from './text.js';
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
      <div class="block">
        {tokens.pieces.slice(from, from + BLOCK).map((piece, index) => {
          const seam = tokens.requests.find(
            ({ start }) => start > 0 && start >= piece.start && start < piece.end,
          );
          return (
            <span key={index} class={from + index === marked ? 'piece marked' : 'piece'}>
              {seam !== undefined && <SeamMark seam={{ ...seam, token: seam.start }} />}
              <Shown text={piece.text} />
            </span>
          );
        })}
      </div>
    ),
    [tokens, from, marked],
  );
}

export const SeamMark = ({ seam }: { seam: Seam }): JSX.Element => (
  <span class="seam">
    ‖ seam at token {whole(seam.token + 1)}: sampled on by <Shown text={seam.replica} />, version{' '}
    <Shown text={seam.version ?? 'none'} />
  </span>
);
