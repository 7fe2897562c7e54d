import { randomInt } from 'node:crypto';
import type { StoreKind } from './stores.js';

export const USAGE = `npm run chaos -- [kills] [day] [--short] [--store KIND] [--seed N] [--only TEXT] [--json [FILE]]

  kills          only the kills of the parts of npm start
  day            only what an operator does with Temporal's own commands
                 with --short or --only both are left out
  --short        a few faults on a small batch, within a minute
  --store KIND   journals in files (file) or in PostgreSQL (postgres); else in files
  --seed N       of the moments at which faults and operations strike; else a random one, which is printed
  --only TEXT    only faults whose name contains TEXT, or one of several with commas between them
  --json [FILE]  the report as JSON into a file; without one, or with -, as the last line on stdout`;

export interface Options {
  parts: Parts;
  short: boolean;
  store: StoreKind;
  seed: number;
  only: string;
  /** A file; `-` for stdout; null: none. */
  json: string | null;
}

/** Which are played: the faults, the kills of `npm start`, an operator's day. */
export interface Parts {
  faults: boolean;
  kills: boolean;
  day: boolean;
}

/** Throws the usage if the arguments are invalid. */
export function readOptions(args: readonly string[]): Options {
  const options: Options = {
    parts: { faults: true, kills: true, day: true },
    short: false,
    store: 'file',
    seed: randomInt(1_000_000),
    only: '',
    json: null,
  };
  const rest = [...args];
  const named: (keyof Parts)[] = [];
  const value = (): string | null => {
    const [next] = rest;
    return next === undefined || next.startsWith('--') ? null : (rest.shift() ?? null);
  };
  while (rest.length > 0) {
    const name = rest.shift();
    if (name === 'kills' || name === 'day') named.push(name);
    else if (name === '--short') options.short = true;
    else if (name === '--store') options.store = storeFrom(value());
    else if (name === '--json') options.json = value() ?? '-';
    else if (name === '--only') options.only = value() ?? wrong('--only: expected a text');
    else if (name === '--seed') options.seed = seedFrom(value());
    else wrong(`unknown option ${name ?? ''}`);
  }
  const isChosen = options.short || options.only !== '';
  if (isChosen && named.length > 0)
    wrong(`${named.join(' ')}: expected neither --short nor --only`);
  return { ...options, parts: partsOf(named, isChosen) };
}

function partsOf(named: readonly (keyof Parts)[], isChosen: boolean): Parts {
  const isMeant = (part: keyof Parts): boolean =>
    named.length === 0 ? !isChosen : named.includes(part);
  return { faults: named.length === 0, kills: isMeant('kills'), day: isMeant('day') };
}

function storeFrom(text: string | null): StoreKind {
  return text === 'file' || text === 'postgres'
    ? text
    : wrong(`--store: expected file or postgres, got ${text ?? 'nothing'}`);
}

function seedFrom(text: string | null): number {
  const seed = Number(text ?? NaN);
  return Number.isSafeInteger(seed) && seed >= 0
    ? seed
    : wrong(`--seed: expected a whole number, got ${text ?? 'nothing'}`);
}

function wrong(problem: string): never {
  throw new Error(`${problem}\n\n${USAGE}`);
}
