import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import {
  countCodePoints,
  isDigits,
  lastCodePoints,
  splitWords,
  strip,
} from '../../../src/platform/python/text.js';
import { formatFixed, parseFloatText } from '../../../src/platform/python/numbers.js';
import { processorTime_ms } from '../../harness/processor-time.js';

/** Expected values are what CPython 3.11 answers. */

describe('white space', () => {
  test('is Python’s: separators and the next-line control are, the byte order mark and zero-width space are not', () => {
    assert.equal(strip('\x1c\x1f\x85\xa0\u1680\u2028\u3000a\u2009\x0b\n'), 'a');
    assert.equal(strip('\ufeff a \u200b'), '\ufeff a \u200b');
    assert.deepEqual(splitWords(' a\x1db\u2000\u2001c\ufeffd '), ['a', 'b', 'c\ufeffd']);
    assert.deepEqual(splitWords(' \t '), []);
  });

  test('is stripped from a megabyte of it, before, behind and within, in a moment', () => {
    const spaces = ' '.repeat(500_000);
    const began = processorTime_ms();
    assert.equal(strip(`${spaces}a${spaces}b${spaces}`).length, 500_002);
    assert.ok(processorTime_ms() - began < 1000);
  });
});

describe('lengths', () => {
  test('count code points, lone surrogates as one each', () => {
    assert.equal(countCodePoints('a😀é'), 3);
    assert.equal(countCodePoints('\ud83d\ud83d\ude00\ude00'), 3);
  });

  test('of an end count code points and cut no pair', () => {
    assert.equal(lastCodePoints('ab😀😀c', 3), '😀😀c');
    assert.equal(lastCodePoints(`x${'😀'.repeat(10)}`, 10), '😀'.repeat(10));
    assert.equal(lastCodePoints('ab', 3), 'ab');
  });
});

describe('digits', () => {
  test('are decimals of every script, superscripts and circled ones', () => {
    for (const text of ['0', '٤', '²', '①', '12٣', '𝟙', '𐩀'])
      assert.equal(isDigits(text), true, text);
  });

  test('are neither signs, fractions, roman numerals nor nothing', () => {
    for (const text of ['', '-4', '4.0', '½', 'Ⅷ', '一', ' 4'])
      assert.equal(isDigits(text), false, text);
  });
});

describe('a float', () => {
  const cases: [text: string, value: number | null][] = [
    ['8', 8],
    ['  8.5\n', 8.5],
    ['.5', 0.5],
    ['5.', 5],
    ['-1e3', -1000],
    ['+1E-2', 0.01],
    ['1_000', 1000],
    ['1_0.2_5e1_0', 10.25e10],
    ['٣.٥', 3.5],
    ['𝟙', 1],
    ['inf', Infinity],
    ['-Infinity', -Infinity],
    ['nan', NaN],
    ['+NaN', NaN],
    ['', null],
    ['.', null],
    ['1__0', null],
    ['_1', null],
    ['1_', null],
    ['0x10', null],
    ['1e', null],
    ['1 0', null],
    ['1,000', null],
    ['infinit', null],
    ['²', null],
    ['--1', null],
    ['e5', null],
    ['1e1000', Infinity],
  ];
  for (const [text, value] of cases) {
    test(`is read from ${JSON.stringify(text)} as ${value}`, () => {
      assert.ok(Object.is(parseFloatText(text), value), String(parseFloatText(text)));
    });
  }
});

describe('a number with fixed digits', () => {
  const cases: [value: number, digits: number, text: string][] = [
    [0.125, 2, '0.12'],
    [0.375, 2, '0.38'],
    [2.5, 0, '2'],
    [3.5, 0, '4'],
    [-0.125, 2, '-0.12'],
    [1.005, 2, '1.00'],
    [0.5, 2, '0.50'],
    [8.000_000_5, 2, '8.00'],
    [-0, 2, '-0.00'],
    [-0.001, 2, '-0.00'],
    [NaN, 2, 'nan'],
    [-Infinity, 5, '-inf'],
    [1e22, 2, '10000000000000000000000.00'],
    [1e-10, 5, '0.00000'],
    [1002, 5, '1002.00000'],
    [0.000_005, 5, '0.00001'],
    [1 / 3, 5, '0.33333'],
  ];
  for (const [value, digits, text] of cases) {
    test(`writes ${value} with ${digits} as ${text}`, () => {
      assert.equal(formatFixed(value, digits), text);
    });
  }
});
