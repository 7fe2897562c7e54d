/** Scripts and pictures whose characters take two columns. */
const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|\p{Emoji_Presentation}/u;
/** They combine with the previous character. */
const WITHOUT_WIDTH = /[\p{Mn}\ufe00-\ufe0f]/u;

export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += widthOfCharacter(character);
  return width;
}

export const widthOfCharacter = (character: string): number =>
  WITHOUT_WIDTH.test(character) ? 0 : WIDE.test(character) ? 2 : 1;

/** As much of its beginning as these columns hold. */
export function headOf(text: string, columns: number): string {
  let left = columns;
  let head = '';
  for (const character of text) {
    left -= widthOfCharacter(character);
    if (left < 0) break;
    head += character;
  }
  return head;
}
