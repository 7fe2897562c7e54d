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

const isFirstHalf = (unit: number): boolean => unit >= 0xd800 && unit < 0xdc00;

/** Cut to so many UTF-16 units, with an ellipsis behind a whole character: half of one has no UTF-8. */
export function cut(text: string, units: number): string {
  if (text.length <= units) return text;
  return `${text.slice(0, isFirstHalf(text.charCodeAt(units - 1)) ? units - 1 : units)}…`;
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
