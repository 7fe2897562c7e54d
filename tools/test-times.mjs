/** How long test files take: kept from run to run, so that the longest start first, and said at the end. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';

const FILE = path.join('.rollouts', 'test-times.json');
const SLOWEST = 30;

/** Seconds by file, as the last runs took; a file that has not run is missing. */
export function readTimes(root) {
  try {
    return new Map(Object.entries(JSON.parse(readFileSync(path.join(root, FILE), 'utf8'))));
  } catch {
    return new Map();
  }
}

export function keepTimes(root, times) {
  mkdirSync(path.join(root, '.rollouts'), { recursive: true });
  const all = Object.fromEntries([...readTimes(root), ...times]);
  writeFileSync(path.join(root, FILE), JSON.stringify(all));
}

/**
 * Seconds by test file, from the lines of jsonl-reporter.mjs. A file with a process of its own took as long as that; of
 * a group's file it is the sum of its tests.
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
