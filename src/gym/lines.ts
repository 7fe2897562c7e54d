import { createReadStream } from 'node:fs';

/**
 * A file's lines as Python's text mode has them: ended by LF, CRLF or CR and by nothing else, where node:readline also cuts at
 * U+2028, which JSON allows inside a string. One line is held at a time, of any length. From byte `start` on.
 */
export async function* linesOf(file: string, start = 0): AsyncIterable<string> {
  const unfinished: string[] = [];
  let heldReturn = '';
  for await (const chunk of createReadStream(file, {
    encoding: 'utf8',
    start,
  }) as AsyncIterable<string>) {
    const text = heldReturn + chunk;
    // A CR at the end may be half of a CRLF.
    heldReturn = text.endsWith('\r') ? '\r' : '';
    const pieces = text.slice(0, text.length - heldReturn.length).split(/\r\n|\n|\r/);
    const last = pieces.pop() ?? '';
    for (const piece of pieces) {
      yield unfinished.join('') + piece;
      unfinished.length = 0;
    }
    unfinished.push(last);
  }
  const rest = unfinished.join('');
  if (rest !== '' || heldReturn !== '') yield rest;
}
