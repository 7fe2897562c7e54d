import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { blanksOf } from './blanks.js';
import { plural } from './words.js';

/**
 * Characters that act instead of being shown: controls, direction marks, letters without a shape, lone surrogates.
 * Joiners are left, since they make letters of many scripts, and emoji.
 */
const UNSEEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029]|(?![\ufe00-\ufe0f\u200c\u200d])[\p{Default_Ignorable_Code_Point}\p{Cs}\ufff9-\ufffb]/gu;
/** Shown at once; more is shown when asked for. */
const SHOWN_CHARACTERS = 20_000;
/** Characters that are laid out together. */
const BLOCK = 8_000;

/** A text as it is: what cannot be seen is named, and nothing in it acts. */
export function Shown({ text }: { text: string }): JSX.Element {
  if (text.search(UNSEEN) === -1) return <bdi>{text}</bdi>;
  const parts: ComponentChildren[] = [];
  let from = 0;
  for (const { 0: found, index } of text.matchAll(UNSEEN)) {
    if (found === '\r' && text[index + 1] === '\n') continue;
    parts.push(text.slice(from, index), <Mark code={found.codePointAt(0) ?? 0} />);
    from = index + found.length;
  }
  parts.push(text.slice(from));
  return <bdi>{parts}</bdi>;
}

function Mark({ code }: { code: number }): JSX.Element {
  const name = `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;
  return (
    <span class="mark" title="a character that cannot be seen">
      {name}
    </span>
  );
}

/** Says what white space a text ends with, which nobody sees otherwise. */
export function Blanks({ text }: { text: string }): JSX.Element | null {
  const blanks = blanksOf(text);
  return blanks === null ? null : (
    <span class="mark blanks" title="white space at the end">
      ends with {blanks}
    </span>
  );
}

/** Lines as they are. Of a long one the beginning, and the rest in blocks that are laid out when they are near. */
export function Raw({
  text,
  lead,
}: {
  text: string;
  /** Before its first line. */
  lead?: ComponentChildren;
}): JSX.Element {
  const [isWhole, setWhole] = useState(false);
  const shown = isWhole ? text : text.slice(0, SHOWN_CHARACTERS);
  const blocks = shown === '' ? [''] : blocksOf(shown);
  const isEnd = shown.length === text.length;
  return (
    <div class="raw" dir="auto">
      {blocks.map((block, index) => (
        <div class={blocks.length > 1 ? 'block' : ''} key={index}>
          {index === 0 && lead}
          <Shown text={block} />
          {isEnd && index === blocks.length - 1 && <Blanks text={text} />}
        </div>
      ))}
      {shown.length < text.length && (
        <button
          type="button"
          onClick={() => {
            setWhole(true);
          }}
        >
          Show all {plural(text.length, 'character')}
        </button>
      )}
    </div>
  );
}

/** Ends with a line where there is one. */
function blocksOf(text: string): string[] {
  const blocks: string[] = [];
  for (let from = 0; from < text.length;) {
    let end = Math.min(text.length, from + BLOCK);
    const line = text.lastIndexOf('\n', end);
    if (end < text.length && line > from) end = line + 1;
    blocks.push(text.slice(from, end).replace(/\n$/, end < text.length ? '' : '\n'));
    from = end;
  }
  return blocks;
}
