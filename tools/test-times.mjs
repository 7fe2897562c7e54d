/**
 * How long test files take: kept from run to run, so that the longest start first, and said at the end. Those above a
 * few seconds are in the repository, for the first run of a clone; `node tools/test-times.mjs` writes them anew from
 * what this clone has kept.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const KEPT = path.join('.rollouts', 'test-times.json');
const COMMITTED = path.join('test', 'times.json');
const SLOWEST = 40;
/** Seconds; a committed file takes as long at least. */
const WORTH_A_LINE = 4;

/** Seconds by file, as the last runs took; a file that is quick or has not run is missing. */
export function readTimes(root) {
  return new Map([COMMITTED, KEPT].flatMap((file) => Object.entries(read(path.join(root, file)))));
}

export function keepTimes(root, times) {
  mkdirSync(path.join(root, '.rollouts'), { recursive: true });
  const all = { ...read(path.join(root, KEPT)), ...Object.fromEntries(times) };
  writeFileSync(path.join(root, KEPT), JSON.stringify(all));
}

/**
 * Seconds by test file, from the lines of run-files.mjs. A file with a process of its own took as long as that; of a
 * group's file it is the sum of its tests.
 */
export function timesOf(lines, sourceOf) {
  const tests = new Map();
  const processes = new Map();
  for (const { process, test, nesting, seconds } of lines) {
    if (process !== undefined) processes.set(sourceOf(process), seconds);
    if (test === undefined || nesting > 0) continue;
    const file = sourceOf(test);
    tests.set(file, (tests.get(file) ?? 0) + seconds);
  }
  const all = [...tests, ...processes].filter(([file]) => !file.startsWith('groups/'));
  return new Map(all);
}

/** The slowest files of a run, for people. */
export function slowestOf(times) {
  const rows = [...times].sort(([, a], [, b]) => b - a);
  const sum = rows.reduce((total, [, seconds]) => total + seconds, 0);
  const list = rows.slice(0, SLOWEST).map(([file, s]) => `${s.toFixed(1).padStart(7)} s  ${file}`);
  return `the slowest of ${rows.length} files, which took ${sum.toFixed(0)} s in all:\n${list.join('\n')}`;
}

function read(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8'));
  } catch {
    return {};
  }
}

function commitTimes(root) {
  const worth = [...readTimes(root)]
    .filter(([file, s]) => s >= WORTH_A_LINE && /\.test\.ts$/.test(file))
    .map(([file, s]) => [file, Math.round(s)])
    .sort(([a], [b]) => (a < b ? -1 : 1));
  writeFileSync(
    path.join(root, COMMITTED),
    `${JSON.stringify(Object.fromEntries(worth), null, 2)}\n`,
  );
}

const here = fileURLToPath(import.meta.url);
if (process.argv[1] === here) commitTimes(path.join(path.dirname(here), '..'));
