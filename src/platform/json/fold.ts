import { Scan } from './scan.js';

/** What to make of each part of a JSON text. */
export interface Making<T> {
  string: (text: string) => T;
  /** As it is written. */
  number: (digits: string) => T;
  word: (value: boolean | null) => T;
  list: (items: T[]) => T;
  /** In the order of the text, repeated names included. */
  object: (members: [name: string, value: T][]) => T;
}

const WORDS: ReadonlyMap<string, boolean | null> = new Map([
  ['true', true],
  ['false', false],
  ['null', null],
]);

/** Makes a value of a text, from the inside out. Throws a SyntaxError that names the place. Pure: workflows may use it. */
export function foldJson<T>(text: string, making: Making<T>): T {
  JSON.parse(text);
  const scan = new Scan(text);
  const valueAt = (token: string): T => {
    if (token === '{') return making.object(membersAt());
    if (token === '[') return making.list(itemsAt());
    if (token === '"') return making.string(stringAt(scan));
    const word = WORDS.get(token);
    return word === undefined ? making.number(token) : making.word(word);
  };
  const itemsAt = (): T[] => {
    const items: T[] = [];
    for (let token = scan.next(); token !== ']'; token = scan.next())
      if (token !== ',') items.push(valueAt(token));
    return items;
  };
  const membersAt = (): [string, T][] => {
    const members: [string, T][] = [];
    for (let token = scan.next(); token !== '}'; token = scan.next()) {
      if (token === ',') continue;
      const name = stringAt(scan);
      scan.next();
      members.push([name, valueAt(scan.next())]);
    }
    return members;
  };
  return valueAt(scan.next());
}

function stringAt({ text, start, end }: Scan): string {
  const inside = text.slice(start + 1, end - 1);
  return inside.includes('\\') ? (JSON.parse(`"${inside}"`) as string) : inside;
}
