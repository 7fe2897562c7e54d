import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { expandGlobs } from '../../metrics/shards.js';
import { indentedJson } from '../../../src/platform/json/indented.js';
import { membersOf, objectText } from '../../../src/platform/json/members.js';
import { writeNewFile } from '../../new-file.js';
import { floatJson } from '../../../src/platform/python/numbers.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

describe('JSON one level deep', () => {
  const object = fc.dictionary(fc.string({ unit: 'binary' }), fc.jsonValue(), {
    noNullPrototype: true,
  });

  test('takes any object apart and puts it together again, however it is spaced', () => {
    fc.assert(
      fc.property(object, fc.constantFrom(0, 1, '\t', '\r\n'), (value, space) => {
        const text = JSON.stringify(value, null, space);
        const members = membersOf(` ${text} `);
        assert.ok(members !== null);
        assert.deepEqual([...members.keys()].sort(), Object.keys(value).sort());
        assert.deepEqual(JSON.parse(objectText(members)), JSON.parse(text));
      }),
    );
  });

  test('keeps number texts, the order of keys, and of a key that is given twice its first place and last value', () => {
    const members = membersOf('{"b": 1.0, "2" :9007199254740993,"b":{"}":"\\\\\\"]"} }');
    assert.deepEqual(
      [...(members ?? [])],
      [
        ['b', '{"}":"\\\\\\"]"}'],
        ['2', '9007199254740993'],
      ],
    );
    assert.equal(membersOf('[1]'), null);
    assert.equal(membersOf(''), null);
  });

  test('is indented as JSON.stringify does it, at any depth', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, '\t'), (value, space) => {
        const text = JSON.stringify(value, null, space);
        const expected = JSON.stringify(JSON.parse(text), null, 2);
        assert.equal(indentedJson(text), expected);
        assert.equal(indentedJson(text, { depth: 2 }), expected.replaceAll('\n', '\n    '));
      }),
    );
  });

  test('floats are written unlike ints', () => {
    assert.deepEqual([1, 0.5, -0, 1e21, Infinity, NaN, 123456789012345680].map(floatJson), [
      '1.0',
      '0.5',
      '-0.0',
      '1e+21',
      'null',
      'null',
      '123456789012345680.0',
    ]);
  });
});

describe('files', () => {
  test('a new file takes the old one’s place when it is whole, and an error leaves the old one alone', async (t) => {
    const directory = await makeTemporaryDirectory('new-file');
    t.after(directory.remove);
    const file = `${directory.path}/a`;
    await writeFile(file, 'old');
    const failing = writeNewFile(file, async (out) => {
      await out.write('x'.repeat(2 ** 21));
      throw new Error('no more');
    });
    await assert.rejects(failing, /no more/);
    assert.deepEqual(await readdir(directory.path), ['a']);
    assert.equal(await readFile(file, 'utf8'), 'old');
    await writeNewFile(file, (out) => out.write('new'));
    assert.deepEqual(await readdir(directory.path), ['a']);
    assert.equal(await readFile(file, 'utf8'), 'new');
  });

  test('a new file takes the place of files alone: a device stays what it is', async () => {
    await assert.rejects(
      writeNewFile('/dev/null', (out) => out.write('new')),
      /expected the path of a file to write, got '\/dev\/null', which is none/,
    );
    assert.ok((await stat('/dev/null')).isCharacterDevice());
  });

  test('globs are Python’s: each sorted, each file once, hidden files only by name', async (t) => {
    const directory = await makeTemporaryDirectory('globs');
    t.after(directory.remove);
    await mkdir(`${directory.path}/b/c`, { recursive: true });
    for (const name of [
      'a1.jsonl',
      'a10.jsonl',
      'a2.jsonl',
      '.a3.jsonl',
      'b/a1.jsonl',
      'b/c/x',
      'q[1]',
    ]) {
      await writeFile(`${directory.path}/${name}`, '');
    }
    const found = (patterns: string): string[] => expandGlobs(patterns, directory.path);
    assert.deepEqual(found('a*.jsonl'), ['a1.jsonl', 'a10.jsonl', 'a2.jsonl']);
    assert.deepEqual(found(' a2.jsonl ,, a?.jsonl, none'), ['a2.jsonl', 'a1.jsonl']);
    assert.deepEqual(found('*/a[!2-9].jsonl'), ['b/a1.jsonl']);
    assert.deepEqual(found('./b/*/x'), ['./b/c/x']);
    assert.deepEqual(found('.a*'), ['.a3.jsonl']);
    assert.deepEqual(found('q[[]1]'), ['q[1]']);
    assert.deepEqual(found('**/a1.jsonl'), ['b/a1.jsonl']);
    assert.deepEqual(found(`${directory.path}/b/*.jsonl`), [`${directory.path}/b/a1.jsonl`]);
    assert.deepEqual(found('a1.jsonl/*, none/*'), []);
  });
});
