import { parseArgs } from 'node:util';

type Default = string | number | boolean | null | readonly string[];

/** What the command line has in place of a default. */
type Given<D extends Default> = D extends number
  ? number
  : D extends boolean
    ? boolean
    : D extends string
      ? string
      : D extends null
        ? string | null
        : string[];

type Options<D extends Record<string, Default>> = { [Name in keyof D]: Given<D[Name]> } & {
  /** Words that are no options. */
  words: string[];
};

/**
 * The options of a program, by their defaults: a whole number, a text (null: none), several texts, or a flag. A `_` is a
 * `-` on the command line. `--help` prints the usage and ends the process; so does whatever is wrong.
 */
export function readOptions<D extends Record<string, Default>>(
  { usage, args = process.argv.slice(2) }: { usage: string; args?: readonly string[] },
  defaults: D,
): Options<D> {
  const optionOf = (name: string): string => name.replaceAll('_', '-');
  const options = Object.entries(defaults).map(([name, value]) => {
    const type = typeof value === 'boolean' ? ('boolean' as const) : ('string' as const);
    return [optionOf(name), { type, multiple: Array.isArray(value) }] as const;
  });
  const help = { type: 'boolean', short: 'h' } as const;
  const { values, positionals } = parsed(usage, {
    args: [...args],
    options: { ...Object.fromEntries(options), help },
    allowPositionals: true,
  });
  if (values['help'] === true) {
    console.log(usage);
    process.exit(0);
  }
  const given = Object.entries(defaults).map(([name, value]) => {
    const text = values[optionOf(name)];
    if (text === undefined || typeof value !== 'number') return [name, text ?? value];
    const number = text === '' ? NaN : Number(text);
    if (!Number.isSafeInteger(number) || number < 0)
      wrongUsage(usage, `--${optionOf(name)}: expected a whole number, got ${String(text)}`);
    return [name, number];
  });
  return { ...Object.fromEntries(given), words: positionals } as Options<D>;
}

function parsed(usage: string, config: NonNullable<Parameters<typeof parseArgs>[0]>) {
  try {
    return parseArgs(config);
  } catch (error) {
    return wrongUsage(usage, error instanceof Error ? error.message : String(error));
  }
}

export function wrongUsage(usage: string, problem: string): never {
  console.error(`${problem}\n\n${usage}`);
  process.exit(2);
}
