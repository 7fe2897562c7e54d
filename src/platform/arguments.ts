import { parseArgs, type ParseArgsConfig } from 'node:util';
import { UsageError } from './command.js';
import { describeError } from './errors.js';
import { plainJson } from './plain.js';
import { readText } from './utf8-text.js';

/** What a command line gives. Each throws an error for the user that says what was expected. */

export const TEXT = { type: 'string' } as const;
export const FLAG = { type: 'boolean', default: false } as const;
type Options = NonNullable<ParseArgsConfig['options']>;

/** The options of a command that takes nothing else. */
export const optionsIn = <T extends Options>(args: string[], options: T) =>
  parseArgs({ args, options }).values;

export const optionsAndWordsIn = <T extends Options>(args: string[], options: T) =>
  parseArgs({ args, options, allowPositionals: true });

export function integerOf(
  option: string,
  { text, least }: { text: string; least: number },
): number {
  const value = Number(text);
  if (/^\d+$/.test(text) && Number.isSafeInteger(value) && value >= least) return value;
  throw new UsageError(
    `${option}: expected an integer, ${least} or more, got ${JSON.stringify(text)}`,
  );
}

export const integerIn = (
  option: string,
  { text, least }: { text: string | undefined; least: number },
): number | undefined => (text === undefined ? undefined : integerOf(option, { text, least }));

/** `7` or `7-12`. */
export function rangeOf(
  option: string,
  { text, of }: { text: string; of: string },
): { first: number; last: number } {
  const [, first, last = first] = /^(\d+)(?:-(\d+))?$/.exec(text) ?? [];
  if (first !== undefined && Number(first) <= Number(last))
    return { first: Number(first), last: Number(last) };
  throw new UsageError(`${option}: expected a ${of} or FIRST-LAST, got ${JSON.stringify(text)}`);
}

export function oneOf<T extends string>(
  option: string,
  { text, among }: { text: string; among: readonly T[] },
): T {
  const found = among.find((one) => one === text);
  if (found !== undefined) return found;
  const got = JSON.stringify(text);
  throw new UsageError(`${option}: expected one of ${among.join(', ')}, got ${got}`);
}

/** The text of the file that an option names. */
export const textIn = (option: string, file: string): Promise<string> =>
  readText(file).catch((error: unknown) => {
    throw new UsageError(`${option}: ${describeError(error)}`);
  });

/** The only argument that is no option. */
export function onlyOne(positionals: readonly string[], expected: string): string {
  const [one] = positionals;
  if (one !== undefined && positionals.length === 1) return one;
  throw new UsageError(`expected ${expected}, got ${positionals.length}`);
}

export const printJson = (value: unknown, indent = 2): void => {
  console.log(plainJson(JSON.stringify(value, null, indent)));
};
