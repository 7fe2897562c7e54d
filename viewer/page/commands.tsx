import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';

/** A command to paste into a shell. */
export function Command({ words, what }: { words: readonly string[]; what: string }): JSX.Element {
  const text = words.map(quoted).join(' ');
  const code = useRef<HTMLElement>(null);
  const [isCopied, setCopied] = useState(false);
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text);
      setCopied(true);
    } catch {
      // Without the right to the clipboard, the text is chosen, so that the reader copies it.
      if (code.current !== null) getSelection()?.selectAllChildren(code.current);
    }
  };
  return (
    <p class="command">
      <span class="quiet">{what}</span> <code ref={code}>{text}</code>{' '}
      <button type="button" aria-label={`copy the command: ${what}`} onClick={() => void copy()}>
        {isCopied ? 'Copied' : 'Copy'}
      </button>
    </p>
  );
}

/** A word that a shell reads as it is. */
const quoted = (word: string): string =>
  /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
