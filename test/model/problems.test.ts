import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { invalidBatchRequest, preview, problemsOf } from '../../src/model/problems.js';

const Thing = z.strictObject({
  name: z.string(),
  size: z.number().max(9),
  inner: z.strictObject({ list: z.array(z.int()) }).optional(),
  kind: z.enum(['a', 'b']).optional(),
});

function told(input: unknown): string[] {
  const { error } = Thing.safeParse(input);
  assert.ok(error !== undefined, 'the input was accepted');
  return problemsOf(error, input).map(({ where, what }) => `${where}: ${what}`);
}

describe('problemsOf', () => {
  test('an unknown field is named by its path, one problem each', () => {
    assert.deepEqual(told({ name: 'x', size: 1, nam: 1, inner: { list: [], lst: 1 }, sze: 2 }), [
      'inner.lst: unknown field',
      'nam: unknown field',
      'sze: unknown field',
    ]);
  });

  const cases: [unknown, string][] = [
    [{ size: 1 }, 'name: expected string, got nothing'],
    [{ name: 5, size: 1 }, 'name: expected string, got 5'],
    [{ name: null, size: 1 }, 'name: expected string, got null'],
    [{ name: { a: 1 }, size: 1 }, 'name: expected string, got {"a":1}'],
    [{ name: 'x', size: '1' }, 'size: expected number, got "1"'],
    [{ name: 'x', size: 10 }, 'size: Too big: expected number to be <=9, got 10'],
    [{ name: 'x', size: 1, inner: { list: [1, 'y'] } }, 'inner.list.1: expected number, got "y"'],
    [{ name: 'x', size: 1, kind: 'c' }, 'kind: Invalid option: expected one of "a"|"b", got "c"'],
    [[], '(input): expected object, got []'],
    [undefined, '(input): expected object, got nothing'],
  ];
  for (const [input, expected] of cases) {
    test(`of ${JSON.stringify(input)}: ${expected}`, () => {
      assert.deepEqual(told(input), [expected]);
    });
  }

  test('a long value is quoted by its beginning', () => {
    const [problem = ''] = told({ name: 'x', size: 'y'.repeat(1000) });
    assert.ok(problem.length < 120, problem);
    assert.match(problem, /got "yyyy.*…$/);
  });
});

describe('preview', () => {
  test('it cuts no character in two', () => {
    for (const before of ['', 'x', 'xx', 'xxx']) {
      const text = preview(before + '😀'.repeat(100));
      assert.equal(Buffer.from(text).toString('utf8'), text);
      assert.ok(text.endsWith('…') && Buffer.byteLength(text) < 90, text);
    }
  });

  test('it quotes strings, and tells nothing from null', () => {
    assert.equal(preview('a'), '"a"');
    assert.equal(preview(null), 'null');
    assert.equal(preview(undefined), 'nothing');
  });

  test('it shows what JSON cannot', () => {
    const circle: unknown[] = [];
    circle.push(circle);
    const shown = [NaN, -Infinity, 5n, Symbol('x'), circle].map(preview);
    assert.deepEqual(shown, ['NaN', '-Infinity', '5', 'Symbol(x)', '[object Array]']);
  });
});

describe('invalidBatchRequest', () => {
  const many = (count: number, what = 'wrong') =>
    Array.from({ length: count }, (_, i) => ({ where: `row ${i}`, what }));

  test('it is final and lists each problem on its line', () => {
    const fault = invalidBatchRequest(many(2));
    assert.equal(fault.type, 'InvalidBatchRequest');
    assert.equal(fault.retryable, false);
    assert.equal(fault.message, 'row 0: wrong\nrow 1: wrong');
  });

  test('ten problems are listed, of more the number', () => {
    assert.equal(invalidBatchRequest(many(10)).message.split('\n').length, 10);
    const lines = invalidBatchRequest(many(13)).message.split('\n');
    assert.equal(lines.length, 11);
    assert.equal(lines[9], 'row 9: wrong');
    assert.equal(lines[10], '… and 3 more');
  });

  for (const [name, character] of [
    ['one', 'x'],
    ['two', 'é'],
    ['three', '漢'],
    ['four', '😀'],
  ] as const) {
    test(`it stays under 3 kB with characters of ${name} byte${name === 'one' ? '' : 's'}, and cuts none in two`, () => {
      for (const before of ['', 'x', 'xx', 'xxx']) {
        const { message } = invalidBatchRequest(many(12, before + character.repeat(5000)));
        const bytes = Buffer.byteLength(message);
        assert.ok(bytes < 3000, `${bytes} bytes`);
        assert.ok(bytes > 2700, `${bytes} bytes: more was cut than needed`);
        assert.ok(message.startsWith(`row 0: ${before}${character}`));
        assert.ok(message.endsWith('…'));
        assert.equal(Buffer.from(message).toString('utf8'), message, 'half a character');
      }
    });
  }
});
