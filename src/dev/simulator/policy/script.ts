/** What a prompt wants to be told: the answers stand in it, one a line. */
export interface ScriptedAnswer {
  bytes: readonly number[];
  /** How many of them the prompt already ends with: a resumed request does. */
  said: number;
}

/** As the chat template opens the assistant's answer, `\xff` standing for its token. Observations come with a template or without one. */
const ANSWERS_BEGIN = '\xffassistant\n';
const LINE = /^Say: (.+)$/gm;

/**
 * The answer that `Say: <text>` lines prescribe, where the last message of a rendered chat that is no observation has any: the first line is
 * the first answer, the second one the second, and the last one all that follow. An answer counts as given when it
 * stands in what follows the message, with something behind it: an end of sequence or an observation. So an observation
 * that quotes the next line takes its place, and where a stop string ended the answer and nothing was observed, the next
 * answer is empty: the prompt looks like that of an answer to be resumed. `text` is the prompt in Latin-1, special
 * tokens as bytes that are no UTF-8.
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

/** Was the message that has the lines answered with something else, and then another one written? */
const isOver = (lines: readonly string[], since: string): boolean =>
  since.includes('\xffuser\n') && !lines.some((line) => since.includes(line));

/** Those of the message before an answer. */
function linesBefore(opening: number, text: string): string[] {
  const message = text.slice(text.lastIndexOf('\xff', opening - 1) + 1, opening);
  return [...message.replaceAll('\xfe', '\n').matchAll(LINE)].map(([, line]) => line ?? '');
}

function endOf(line: string, { text, from }: { text: string; from: number }): number | null {
  const at = text.indexOf(line, from);
  return at === -1 ? null : at + line.length;
}

/** Of the longest beginning of `line` that `text` ends with. */
function overlap(line: string, text: string): number {
  let length = Math.min(line.length - 1, text.length);
  while (!text.endsWith(line.slice(0, length))) length -= 1;
  return length;
}
