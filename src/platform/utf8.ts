/**
 * Sizes in bytes on the wire. Written by hand, because workflow code is checked without the types of Node and the DOM.
 */

const widthOf = (character: string): number => {
  const point = character.codePointAt(0) ?? 0;
  if (point < 0x80) return 1;
  if (point < 0x800) return 2;
  return point < 0x10000 ? 3 : 4;
};

export function utf8Length(text: string): number {
  let bytes = 0;
  for (const character of text) bytes += widthOf(character);
  return bytes;
}

/** Cut to at most `limit` bytes and marked with an ellipsis; ends with a whole character. */
export function cutToBytes(text: string, limit: number): string {
  let bytes = 0;
  let kept = 0;
  for (const character of text) {
    bytes += widthOf(character);
    if (bytes > limit) return `${text.slice(0, kept)}…`;
    kept += character.length;
  }
  return text;
}
