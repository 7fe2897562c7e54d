import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseForeignYaml, parseYaml } from '../../src/platform/yaml.js';

const bomb = [
  'a: &a [1,1,1,1,1,1,1,1,1]',
  ...['b', 'c', 'd'].map((name, i) => `${name}: &${name} [${`*${'abc'[i] ?? ''},`.repeat(9)}]`),
].join('\n');

describe('YAML that people write', () => {
  test('is its value, aliases and names of any kind included', () => {
    assert.deepEqual(parseYaml('a: &x {b: 1}\nc: [*x, *x]', 'f'), {
      a: { b: 1 },
      c: [{ b: 1 }, { b: 1 }],
    });
    assert.deepEqual(Object.keys(parseYaml('__proto__: {a: 1}', 'f') as object), ['__proto__']);
    assert.equal(parseYaml('', 'f'), null);
  });

  for (const [what, text, says] of [
    [
      'a tag that nobody knows',
      'x: 1\na: !!js/function f',
      /^f is not YAML at line 2, column 4: Unresolved tag: .*js\/function$/,
    ],
    ['a tag of its own', 'a:\n  - !secret b', /line 2, column 5: Unresolved tag: !secret$/],
    [
      'lists without end',
      'a: '.concat('['.repeat(20_000)),
      /^f is not YAML at line 1, column 5\d\d: lists and mappings are nested deeper than 512 levels$/,
    ],
    [
      'deep lists',
      `x: 1\na: ${'['.repeat(20_000)}${']'.repeat(20_000)}`,
      /^f is not YAML at line 2, column 5\d\d: lists and mappings are nested deeper than 512 levels$/,
    ],
    ['dashes', '- '.repeat(20_000), /nested deeper than 512 levels$/],
    ['keys of keys', '? '.repeat(20_000), /nested deeper than 512 levels$/],
    ['an alias of itself', 'a: &x\n  b: [*x]', /line 2, column 7: the alias \*x refers to itself$/],
    ['an alias of nothing', 'a: *x', /line 1, column 4: the alias \*x refers to nothing$/],
    ['aliases of aliases of aliases', bomb, /its aliases expand to too many values$/],
    ['a name twice', 'a: 1\na: 2', /line 2, column 1: Map keys must be unique$/],
    ['two documents', 'a: 1\n---\nb: 2', /line 2, column 1: Source contains multiple documents/],
  ] as const) {
    test(`is refused by file and place: ${what}`, () => {
      assert.throws(
        () => parseYaml(text, 'f'),
        ({ name, message }: Error) => {
          assert.equal(name, 'Error');
          assert.match(message, says);
          return true;
        },
      );
    });
  }
});

describe('YAML of another program', () => {
  test('is its value, the last of a repeated name, with what JSON cannot write', async () => {
    const value = await parseForeignYaml('a: 1\na: .nan\nb: &x [.inf]\nc: *x');
    assert.deepEqual(value, { a: NaN, b: [Infinity], c: [Infinity] });
  });

  test('that is none is an error of its parser, and one that is too large a limit', async () => {
    await assert.rejects(parseForeignYaml('a: *x'), { name: 'ReferenceError', message: /x/ });
    const large = `a: [${'1,'.repeat(2e5)}]`;
    await assert.rejects(parseForeignYaml(large, { heap_mb: 32 }), {
      name: 'RangeError',
      message: /more than 32 MB or 30 s/,
    });
  });
});
