import { isUtf8 } from 'node:buffer';
import path from 'node:path';
import { readWhole } from './regular-file.js';

/**
 * Text of others. A byte that is no UTF-8 is refused: a decoder that puts U+FFFD in its place changes data without a
 * word. A byte order mark at the beginning is skipped.
 */

const MARK = Buffer.from([0xef, 0xbb, 0xbf]);
const REPLACEMENT = '\ufffd';
const REPLACEMENT_BYTES = Buffer.from(REPLACEMENT);

/** The text of these bytes. Throws an error that names the first wrong byte. */
export function utf8Text(bytes: Buffer, { start = true }: { start?: boolean } = {}): string {
  if (!isUtf8(bytes)) throw new Error(utf8Problem(bytes) ?? '');
  return bytes.toString('utf8', start ? afterMark(bytes) : 0);
}

export const afterMark = (bytes: Buffer): number =>
  bytes.subarray(0, MARK.length).equals(MARK) ? MARK.length : 0;

/** Why these bytes are no text, or null. */
export function utf8Problem(bytes: Buffer): string | null {
  if (isUtf8(bytes)) return null;
  const at = firstWrong(bytes);
  const got = (bytes[at] ?? 0).toString(16).padStart(2, '0');
  return `expected UTF-8, got 0x${got} at byte ${at}`;
}

function firstWrong(bytes: Buffer): number {
  const text = bytes.toString('utf8');
  let from = 0;
  let at = 0;
  for (;;) {
    const next = text.indexOf(REPLACEMENT, from);
    if (next === -1) return at;
    at += Buffer.byteLength(text.slice(from, next));
    if (!bytes.subarray(at, at + REPLACEMENT_BYTES.length).equals(REPLACEMENT_BYTES)) return at;
    at += REPLACEMENT_BYTES.length;
    from = next + 1;
  }
}

export const readText = async (file: string): Promise<string> =>
  textOf(await readWhole(file), file);

export function textOf(bytes: Buffer, file: string): string {
  const problem = utf8Problem(bytes);
  if (problem !== null) throw new Error(`${path.basename(file)}: ${problem}; save it as UTF-8`);
  return utf8Text(bytes);
}
