import { randomInt } from 'node:crypto';
import { readOptions, wrongUsage } from '../options.js';
import { storeNamed } from './stores.js';

export const USAGE = `npm run chaos -- [kills] [day] [--short] [--store KIND] [--seed N] [--only TEXT] [--json [FILE]]

  kills          only the kills of the parts of npm start
  day            only what an operator does with Temporal's own commands
                 with --short or --only both are left out
  --short        a few faults on a small batch, within a minute
  --store KIND   journals in files (file) or in PostgreSQL (postgres); else in files
  --seed N       of the moments at which faults and operations strike; else a random one, which is printed
  --only TEXT    only faults whose name contains TEXT, or one of several with commas between them
  --json [FILE]  the report as JSON into a file; without one, or with -, as the last line on stdout`;

/** Which are played: the faults, the kills of `npm start`, an operator's day. */
type Part = 'faults' | 'kills' | 'day';

export type Options = ReturnType<typeof chaosOptions>;

export function chaosOptions() {
  // Its value may be left out.
  const given = process.argv.slice(2);
  const args = given.flatMap((arg, i) => {
    const next = given[i + 1] ?? '--';
    return arg === '--json' && next.startsWith('--') ? [arg, '-'] : [arg];
  });
  const { words, store, ...options } = readOptions(
    { usage: USAGE, args },
    { short: false, store: 'file', seed: randomInt(1_000_000), only: '', json: null },
  );
  const unknown = words.find((word) => word !== 'kills' && word !== 'day');
  if (unknown !== undefined) wrongUsage(USAGE, `expected kills or day, got ${unknown}`);
  const isChosen = options.short || options.only !== '';
  if (isChosen && words.length > 0)
    wrongUsage(USAGE, `${words.join(' ')}: expected neither --short nor --only`);
  const plays = (part: Part): boolean =>
    words.length > 0 ? words.includes(part) : part === 'faults' || !isChosen;
  const parts = { faults: plays('faults'), kills: plays('kills'), day: plays('day') };
  return { ...options, parts, store: storeNamed(USAGE, store) };
}
