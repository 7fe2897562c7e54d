import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { shapeOf, shapeProblem } from '../../../src/platform/json/depth.js';

function depthOf(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

describe('the depth of a JSON text', () => {
  test('is that of its value, whatever its strings hold', () => {
    const json = fc.letrec<{ value: unknown }>((tie) => ({
      value: fc.oneof(
        { maxDepth: 6, depthSize: 'large' },
        fc.constantFrom(null, 1, 'a', '[[{', '"', '\\', '\\"[', '}]'),
        fc.array(tie('value'), { maxLength: 3 }),
        fc.dictionary(fc.constantFrom('a', '{"', '\\'), tie('value'), { maxKeys: 3 }),
      ),
    })).value;
    fc.assert(
      fc.property(json, fc.constantFrom(0, 1), (value, indent) => {
        const text = JSON.stringify(value, null, indent);
        assert.equal(shapeOf(text).levels, depthOf(value));
      }),
    );
  });

  test('is found at any depth', () => {
    const text = '['.repeat(1_000_000) + ']'.repeat(1_000_000);
    assert.equal(shapeOf(text).levels, 1_000_000);
  });

  test('has an answer where the text is no JSON', () => {
    for (const text of ['', '"', '"\\"', ']]}', '[{"a']) assert.ok(shapeOf(text).levels <= 2, text);
  });
});

describe('a text of another process', () => {
  const lists = (one: string, count: number): string => `[${Array(count).fill(one).join(',')}]`;

  test('is refused if it is almost nothing but lists and objects', () => {
    for (const one of ['{}', '[]', '[[]]'])
      assert.match(
        shapeProblem(lists(one, 500_000)) ?? '',
        /^expected at most \d+ lists and objects in \d+ characters, got more$/,
      );
  });

  test('is refused if its objects have too many different names, in little time', () => {
    const many = Array.from({ length: 3_000_000 }, (_, at) => `"${at.toString(36)}":0`);
    const texts = [
      `{${many.join(',')}}`,
      lists('{"a":1}', 300_000).replace(']', `,{${many.join(',')}}]`),
    ];
    for (const text of texts) {
      const before = process.cpuUsage();
      assert.match(
        shapeProblem(text) ?? '',
        /^expected at most 524288 different names of members, got more$/,
      );
      const { user, system } = process.cpuUsage(before);
      assert.ok((user + system) / 1e6 < 2, `took ${(user + system) / 1e6} s of processor time`);
    }
    assert.equal(shapeProblem(`{${many.slice(0, 2 ** 19).join(',')}}`), null);
    const again = `[${Array(5)
      .fill(`{${many.slice(0, 100_000).join(',')}}`)
      .join(',')}]`;
    assert.equal(shapeProblem(again), null);
  });

  test('is read whatever it holds otherwise', () => {
    const honest = [
      lists('{}', 200_000),
      lists('"[[[[[[[[{{{{{{{{"', 500_000),
      lists('-0.1234567', 500_000),
      lists('{"token":"a","logprob":-0.123,"bytes":[97],"top_logprobs":[]}', 200_000),
    ];
    for (const text of honest) assert.equal(shapeProblem(text), null);
  });
});
