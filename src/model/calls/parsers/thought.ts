/** A policy's thoughts, between `<think>` and `</think>`. */

const OPEN = '<think>';
const CLOSE = '</think>';

export interface Thought {
  /** undefined: it does not think, or that is not known yet. */
  reasoning?: string;
  rest: string;
}

/** Of a text that may grow only what no further text changes. `opened`: the prompt ends inside the thoughts. */
export function splitThought(
  text: string,
  { opened, ended }: { opened: boolean; ended: boolean },
): Thought {
  const start = text.search(/\S|$/);
  const begun = text.slice(start);
  const tagged = begun.startsWith(OPEN);
  const isOpen = opened || tagged;
  if (!tagged && !ended && OPEN.startsWith(begun)) return { rest: '' };
  if (!isOpen) return { rest: text };
  const from = tagged ? start + OPEN.length : 0;
  const close = text.indexOf(CLOSE, from);
  if (close !== -1)
    return {
      reasoning: text.slice(from, close).trim(),
      rest: text.slice(close + CLOSE.length).trimStart(),
    };
  const end = ended ? text.length : text.length - withheld(text, CLOSE);
  return { reasoning: text.slice(from, end).trim(), rest: '' };
}

/** How many of a text's last characters may be the beginning of a tag. */
export function withheld(text: string, tag: string): number {
  for (let length = Math.min(text.length, tag.length - 1); length > 0; length--)
    if (text.endsWith(tag.slice(0, length))) return length;
  return 0;
}
