import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { pageOf } from './checks/page.js';

/**
 * The block of a page that has this text, as it is printed, for a test that runs it. `blocks.test.ts` finds these calls:
 * both arguments are texts, and such a block counts as run by that test.
 */
export async function exampleIn(file: string, has: string): Promise<string> {
  const page = pageOf(file, await readFile(path.join(PROJECT_ROOT, file), 'utf8'));
  const found = page.blocks.filter(({ text }) => text.includes(has));
  assert.equal(found.length, 1, `${file} has ${found.length} blocks with ${JSON.stringify(has)}`);
  return withoutIndent(found[0]?.text ?? '');
}

/** Blocks of lists are indented. */
function withoutIndent(text: string): string {
  const indent = /^ */.exec(text)?.[0] ?? '';
  return text.replaceAll(new RegExp(`^${indent}`, 'gm'), '');
}
