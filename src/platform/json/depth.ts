import { stringEnd } from './members.js';

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

/** More than any answer or sample has, and little enough for everything that reads or writes it later. */
export const MAX_LEVELS = 512;

/** Any answer may have so many lists and objects, and a long one as many as this fraction of its characters. */
const MOST_ANYWAY = 2 ** 18;
const CHARACTERS_EACH = 16;
/** Names that differ. Each costs about a microsecond; one that is known costs next to nothing. */
const MOST_NAMES = 2 ** 19;

/**
 * Returns whether lists and objects of a JSON text are nested more than `levels` deep. `JSON.parse` reads any depth,
 * but writers and other parsers recurse and run out of stack. The answer for text that is not JSON is arbitrary.
 */
export const isDeeperThan = (levels: number, text: string): boolean =>
  beyond(text, { levels, containers: Infinity, names: Infinity }) === 'levels';

/**
 * Why a JSON text of another process is not parsed; null: it is. An empty object takes three characters, and dozens of
 * bytes in memory; a new name takes six, and a microsecond.
 */
export function shapeProblem(text: string): string | null {
  const containers = MOST_ANYWAY + Math.floor(text.length / CHARACTERS_EACH);
  switch (beyond(text, { levels: MAX_LEVELS, containers, names: MOST_NAMES })) {
    case 'levels':
      return `expected at most ${MAX_LEVELS} levels, got more`;
    case 'containers':
      return `expected at most ${containers} lists and objects in ${text.length} characters, got more`;
    case 'names':
      return TOO_MANY_NAMES;
    case null:
      return null;
  }
}

const TOO_MANY_NAMES = `expected at most ${MOST_NAMES} different names of members, got more`;

/** The same for data of people, which may have any number of lists and objects, in as few characters as they like. */
export function dataProblem(text: string): string | null {
  const found = beyond(text, { levels: MAX_LEVELS, containers: Infinity, names: MOST_NAMES });
  if (found === 'levels')
    return `expected at most ${MAX_LEVELS} levels of lists and objects, got more`;
  return found === null ? null : TOO_MANY_NAMES;
}

interface Shape {
  levels: number;
  /** Lists and objects. */
  containers: number;
  /** Different ones, of members of objects. */
  names: number;
}

function beyond(text: string, most: Shape): keyof Shape | null {
  let depth = 0;
  let containers = 0;
  let members = 0;
  /** Where the last string begins. */
  let start = 0;
  /** Known names, as soon as there may be too many. */
  let names: Set<string> | null = null;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case QUOTE:
        start = at;
        at = stringEnd(text, at) ?? text.length;
        break;
      case COLON:
        members += 1;
        if (members <= most.names) break;
        names ??= namesBefore(text, at);
        names.add(text.slice(start, at));
        if (names.size > most.names) return 'names';
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

/** The names of the members before an index. */
function namesBefore(text: string, end: number): Set<string> {
  const names = new Set<string>();
  let start = 0;
  for (let at = 0; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      start = at;
      at = stringEnd(text, at) ?? text.length;
    } else if (code === COLON) names.add(text.slice(start, at));
  }
  return names;
}
