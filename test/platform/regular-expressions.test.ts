/**
 * A regular expression with a repeated group overflows the stack on long text, and takes quadratic time where two of
 * them follow each other. Those that stay are listed here, each with the reason why its repeats are few.
 */
import assert from 'node:assert/strict';
import { readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { test } from 'node:test';
import { PROJECT_ROOT } from '../../lab/bed/server.js';

const BOUNDED = 'its count has a bound, and so has each repeat';
const ALLOWED: readonly (readonly [repeat: string, why: string])[] = [
  ['gym/config/yaml-text.ts: )*', 'a longer scalar than 4300 characters is not tried'],
  ['src/environments/gymnasium/lost-session.ts: ){3}', BOUNDED],
  ['src/environments/math/letters/letter-at.ts: ){1,24}', BOUNDED],
  ['src/environments/math/letters/letter-at.ts: ){0,2}', BOUNDED],
  ['src/environments/math/letters/multichoice-letter.ts: ){0,2}', BOUNDED],
  ['src/platform/secrets.ts: ){0,4}', BOUNDED],
];

/** Prettier puts a space before the operators of code. */
const REPEATED_GROUP = /(?<!\\)\)(?:[*+]|\{\d[\d,]*\})/g;
const isComment = (line: string): boolean => /^\s*(?:\/\/|\/?\*)/.test(line);

function repeatedIn(file: string): string[] {
  const lines = readFileSync(path.join(PROJECT_ROOT, file), 'utf8').split('\n');
  const code = lines.filter((line) => !isComment(line)).join('\n');
  return Array.from(code.matchAll(REPEATED_GROUP), ([repeat]) => `${file}: ${repeat}`);
}

const sources = ['src', 'gym', 'lab/demos'].flatMap((folder) =>
  readdirSync(path.join(PROJECT_ROOT, folder), { recursive: true, encoding: 'utf8' })
    .map((file) => path.join(folder, file))
    .filter((file) => file.endsWith('.ts') && !file.startsWith(path.join('gym', 'test'))),
);

test('no regular expression repeats a group, but those that have a reason', () => {
  assert.deepEqual(sources.flatMap(repeatedIn).sort(), ALLOWED.map(([repeat]) => repeat).sort());
});
