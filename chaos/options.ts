import { randomInt } from 'node:crypto';
import type { StoreKind } from './stores.js';

export const USAGE = `npm run chaos -- [kills] [--short] [--store KIND] [--seed N] [--only TEXT] [--json [FILE]]

  kills          only the kills of the parts of npm start; with --short or --only they are left out
  --short        a few faults on a small batch, within a minute
  --store KIND   journals in files (file) or in PostgreSQL (postgres); else in files
  --seed N       of the moments at which faults strike; else a random one, which is printed
  --only TEXT    only faults whose name contains TEXT, or one of several with commas between them
  --json [FILE]  the report as JSON into a file; without one, or with -, as the last line on stdout`;

export interface Options {
  /** Which parts are played: the faults, the kills of `npm start`. */
  parts: { faults: boolean; kills: boolean };
  short: boolean;
  store: StoreKind;
  seed: number;
  only: string;
  /** A file; `-` for stdout; null: none. */
  json: string | null;
}

/** Throws the usage if the arguments are invalid. */
export function readOptions(args: readonly string[]): Options {
  const options: Options = {
    parts: { faults: true, kills: true },
    short: false,
    store: 'file',
    seed: randomInt(1_000_000),
    only: '',
    json: null,
  };
  const rest = [...args];
  const value = (): string | null => {
    const [next] = rest;
    return next === undefined || next.startsWith('--') ? null : (rest.shift() ?? null);
  };
  while (rest.length > 0) {
    const name = rest.shift();
    if (name === 'kills') options.parts.faults = false;
    else if (name === '--short') options.short = true;
    else if (name === '--store') options.store = storeFrom(value());
    else if (name === '--json') options.json = value() ?? '-';
    else if (name === '--only') options.only = value() ?? wrong('--only: expected a text');
    else if (name === '--seed') options.seed = seedFrom(value());
    else wrong(`unknown option ${name ?? ''}`);
  }
  const isChosen = options.short || options.only !== '';
  if (isChosen && !options.parts.faults) wrong('kills: expected neither --short nor --only');
  return { ...options, parts: { ...options.parts, kills: !isChosen } };
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
