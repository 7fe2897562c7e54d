import { deeper, Scan } from './scan.js';

/** More than any answer or sample has, and little enough for everything that reads or writes it later. */
export const MAX_LEVELS = 512;

/** Any answer may have so many lists and objects, and a long one as many as this fraction of its characters. */
const MOST_ANYWAY = 2 ** 18;
const CHARACTERS_EACH = 16;
/** Names that differ. Each costs about a microsecond; one that is known costs next to nothing. */
const MOST_NAMES = 2 ** 19;

/** null: it is parsed. `{}` takes dozens of bytes in memory; a new name takes six characters, and a microsecond. */
export function shapeProblem(text: string): string | null {
  const { levels, containers, members } = shapeOf(text);
  const most = MOST_ANYWAY + Math.floor(text.length / CHARACTERS_EACH);
  if (levels > MAX_LEVELS) return `expected at most ${MAX_LEVELS} levels, got more`;
  return containers > most
    ? `expected at most ${most} lists and objects in ${text.length} characters, got more`
    : namesProblem(text, members);
}

/** The same for data of people, which may have any number of lists and objects, in as few characters as they like. */
export function dataProblem(text: string): string | null {
  const { levels, members } = shapeOf(text);
  return levels > MAX_LEVELS
    ? `expected at most ${MAX_LEVELS} levels of lists and objects, got more`
    : namesProblem(text, members);
}

const MARKS = /[{}[\]:"]/g;

/**
 * How deep lists and objects are nested (`JSON.parse` reads any depth, but who writes it runs out of stack), how many of
 * them there are, and how many members all objects have.
 */
export function shapeOf(text: string) {
  const scan = new Scan(text);
  const shape = { levels: 0, containers: 0, members: 0 };
  let depth = 0;
  for (let token = scan.next(MARKS); token !== ''; token = scan.next(MARKS)) {
    const change = deeper(token);
    depth += change;
    if (change > 0) shape.containers += 1;
    if (depth > shape.levels) shape.levels = depth;
    if (token === ':') shape.members += 1;
  }
  return shape;
}

/** Names are told apart only where there may be too many. */
function namesProblem(text: string, members: number): string | null {
  if (members <= MOST_NAMES) return null;
  const scan = new Scan(text);
  const names = new Set<string>();
  let name = '';
  for (let token = scan.next(MARKS); token !== ''; token = scan.next(MARKS)) {
    if (token === '"') name = text.slice(scan.start, scan.end);
    else if (token === ':' && names.add(name).size > MOST_NAMES)
      return `expected at most ${MOST_NAMES} different names of members, got more`;
  }
  return null;
}
