/** Answers that a prompt prescribes, one per line. */
export interface ScriptedAnswer {
  bytes: readonly number[];
  /** How many of them the prompt already has: a resumed request ends with one. */
  said: number;
}

/**
 * The chat template's opening of the assistant's answer, with `\xff` for its token. Observations come with or without a
 * template.
 */
const ANSWERS_BEGIN = '\xffassistant\n';
const LINE = /^Say: (.+)$/gm;

/**
 * The answer that `Say: <text>` lines prescribe, in the last message of a rendered chat that is no observation and has
 * such lines. The first line is the first answer, the second line the second, and the last line all later ones. An
 * answer counts as given if it is in the text after the message, followed by an end of sequence or an observation. So
 * an observation that quotes the next line takes its place. If a stop string ended the answer and nothing was observed,
 * the next answer is empty, because the prompt looks like one to be resumed. `text` is the prompt in Latin-1, with
 * special tokens as bytes that are not UTF-8.
 */
export function scriptedAnswer(text: string): ScriptedAnswer | null {
  let opening = text.lastIndexOf(ANSWERS_BEGIN);
  while (opening > 0 && linesBefore(opening, text).length === 0)
    opening = text.lastIndexOf(ANSWERS_BEGIN, opening - 1);
  if (opening === -1) return null;
  const lines = linesBefore(opening, text);
  const last = lines.at(-1);
  if (last === undefined || isOver(lines, text.slice(opening))) return null;
  let from = opening + ANSWERS_BEGIN.length;
  for (let turn = 0; ; turn++) {
    const line = lines[turn] ?? last;
    const end = endOf(line, { text, from });
    if (end === null || end === text.length) {
      return {
        bytes: Array.from(Buffer.from(line, 'latin1')),
        said: end === null ? overlap(line, text.slice(from)) : line.length,
      };
    }
    from = end;
  }
}

/** Whether the message with the lines was answered with something else, and another message followed. */
const isOver = (lines: readonly string[], since: string): boolean =>
  since.includes('\xffuser\n') && !lines.some((line) => since.includes(line));

/** The lines of the message before an answer. */
function linesBefore(opening: number, text: string): string[] {
  const message = text.slice(text.lastIndexOf('\xff', opening - 1) + 1, opening);
  return [...message.replaceAll('\xfe', '\n').matchAll(LINE)].map(([, line]) => line ?? '');
}

function endOf(line: string, { text, from }: { text: string; from: number }): number | null {
  const at = text.indexOf(line, from);
  return at === -1 ? null : at + line.length;
}

/** The length of the longest beginning of `line` with which `text` ends. */
function overlap(line: string, text: string): number {
  let length = Math.min(line.length - 1, text.length);
  while (!text.endsWith(line.slice(0, length))) length -= 1;
  return length;
}
