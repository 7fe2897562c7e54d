import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { readLines } from '../../../src/sandbox/snippets/line-reader.js';

test('a line of the sandbox with more names than anybody reads is skipped before it is built', async () => {
  const stream = new PassThrough();
  const lines = readLines(stream, 100_000_000);
  const names = Array.from({ length: 600_000 }, (_, at) => `"${at.toString(36)}":0`);
  stream.write(`{${names.join(',')}}\n[${'{},'.repeat(600_000)}{}]\n{"said":1}\n`);
  assert.deepEqual(await lines.next(), { said: 1 });
  stream.end();
});
