const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** More than any answer or sample has, and little enough for everything that reads or writes it later. */
export const MAX_LEVELS = 512;

/** Any answer may have so many lists and objects, and a long one as many as this fraction of its characters. */
const MOST_ANYWAY = 2 ** 18;
const CHARACTERS_EACH = 16;

/**
 * Returns whether lists and objects of a JSON text are nested more than `levels` deep. `JSON.parse` reads any depth,
 * but writers and other parsers recurse and run out of stack. The answer for text that is not JSON is arbitrary.
 */
export const isDeeperThan = (levels: number, text: string): boolean =>
  beyond(text, { levels, containers: Infinity }) === 'levels';

/**
 * Why a JSON text of another process is not parsed; null: it is. An empty object takes three characters, and dozens of
 * bytes in memory.
 */
export function shapeProblem(text: string): string | null {
  const containers = MOST_ANYWAY + Math.floor(text.length / CHARACTERS_EACH);
  switch (beyond(text, { levels: MAX_LEVELS, containers })) {
    case 'levels':
      return `expected at most ${MAX_LEVELS} levels, got more`;
    case 'containers':
      return `expected at most ${containers} lists and objects in ${text.length} characters, got more`;
    case null:
      return null;
  }
}

interface Shape {
  levels: number;
  /** Lists and objects. */
  containers: number;
}

function beyond(text: string, most: Shape): keyof Shape | null {
  let depth = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        at = endOfString(text, at);
        break;
      case OPEN_LIST:
      case OPEN_OBJECT:
        depth += 1;
        containers += 1;
        if (depth > most.levels) return 'levels';
        if (containers > most.containers) return 'containers';
        break;
      case CLOSE_LIST:
      case CLOSE_OBJECT:
        depth -= 1;
        break;
    }
  }
  return null;
}

/** The index of the closing quote, or the end of the text for an unterminated string. */
function endOfString(text: string, from: number): number {
  let at = from;
  for (;;) {
    at = text.indexOf('"', at + 1);
    if (at === -1) return text.length;
    let escapes = 0;
    while (text.charCodeAt(at - 1 - escapes) === BACKSLASH) escapes += 1;
    if (escapes % 2 === 0) return at;
  }
}
