import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { FileLine } from '../../src/platform/lines.js';
import { createLineCutter, linesOf, textsOf } from '../../src/platform/lines.js';
import { temporaryFolder } from '../dev/fakes.js';

describe('a line ends at a line feed and nowhere else', () => {
  test('however the bytes are chunked', () => {
    const line = fc.string({ unit: fc.constantFrom('a', 'ä', '\u2028', '\u2029', '\r', '😀') });
    fc.assert(
      fc.property(fc.array(line), fc.array(fc.nat(12)), (lines, cuts) => {
        const bytes = Buffer.from(lines.join('\n'));
        const cutter = createLineCutter();
        const found: string[] = [];
        let at = 0;
        for (const size of [...cuts, bytes.length]) {
          const chunk = bytes.subarray(at, at + size);
          at += chunk.length;
          found.push(...cutter.cut(chunk).map(String));
        }
        assert.deepEqual([...found, cutter.rest().toString()], lines.length > 0 ? lines : ['']);
      }),
    );
  });

  test('in a file, each with its place', async (t) => {
    const file = path.join(await temporaryFolder(t), 'a.jsonl');
    const lines = ['ä', '', 'x'.repeat(700_000), 'a\u2028b\u2029c', 'last'];
    const whole = Buffer.from(lines.join('\n'));
    await writeFile(file, whole);
    const found: FileLine[] = [];
    for await (const line of linesOf(file)) found.push(line);
    assert.deepEqual(
      found.map(({ text }) => text),
      lines,
    );
    for (const { text, offset, bytes, number } of found) {
      assert.equal(whole.toString('utf8', offset, offset + bytes), text);
      assert.equal(lines[number - 1], text);
    }
    const { offset: from = 0 } = found[3] ?? {};
    const later: FileLine[] = [];
    for await (const line of linesOf(file, { from })) later.push(line);
    assert.deepEqual(
      later.map(({ text, offset }) => [text, offset]),
      found.slice(3).map(({ text, offset }) => [text, offset]),
    );
  });

  test('in a file, and only its last line may lack it', async (t) => {
    const file = path.join(await temporaryFolder(t), 'a.jsonl');
    const ends = async (text: string): Promise<boolean[]> => {
      await writeFile(file, text);
      const found: boolean[] = [];
      for await (const { ended } of linesOf(file)) found.push(ended);
      return found;
    };
    assert.deepEqual(await ends('a\r\nb\nc'), [true, true, false]);
    assert.deepEqual(await ends('a\n\n'), [true, true]);
    assert.deepEqual(await ends('a\nb\r'), [true, true]);
    assert.deepEqual(await ends(''), []);
  });

  test('a carriage return before it belongs to no line; an empty file has none', async (t) => {
    const file = path.join(await temporaryFolder(t), 'a.txt');
    const read = async (text: string): Promise<string[]> => {
      await writeFile(file, text);
      const texts: string[] = [];
      for await (const line of textsOf(file)) texts.push(line);
      return texts;
    };
    assert.deepEqual(await read('a\r\nb\rc\n\r\nd\r'), ['a', 'b\rc', '', 'd']);
    assert.deepEqual(await read('a\n'), ['a']);
    assert.deepEqual(await read(''), []);
  });
});
