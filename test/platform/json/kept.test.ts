import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  KeptJson,
  keptJson,
  plainOf,
  readJson,
  writeJson,
} from '../../../src/platform/json/kept.js';
import { firstLostNumber } from '../../../src/platform/json/losses.js';
import { jsonText, tokensOf } from './json-text.js';

describe('JSON of others', () => {
  test('is written as it was read, whatever it holds', () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        assert.deepEqual(tokensOf(writeJson(readJson(text))), tokensOf(text));
      }),
      { numRuns: 2000 },
    );
  });

  test('is text if it is a list, an object, or a number that JavaScript writes otherwise', () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        const read = readJson(text);
        const value: unknown = JSON.parse(text);
        const isText = typeof value === 'number' ? String(value) !== text : Object(value) === value;
        if (isText) assert.ok(read instanceof KeptJson);
        else assert.equal(read, value);
      }),
      { numRuns: 2000 },
    );
  });

  test('that this project or JSON.stringify wrote has the same text again, byte by byte', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value);
        assert.equal(writeJson(readJson(text)), text);
        assert.equal(writeJson(readJson(JSON.stringify(value, null, 2))), text);
      }),
    );
    assert.equal(writeJson(readJson('["\\u0041\\/", {"\\u00e9" : 1.0} ]')), '["A/",{"é":1.0}]');
  });

  test('beside what is ours: only foreign members stay text', () => {
    const text =
      '{"turn": 1.0, "metadata": {"seed": 9223372036854775783}, "answer": {"reward": 2.0, "metadata": [ 1.0 ]},' +
      ' "list": [{"3": 1, "1": 2}, {"1": 1}], "x": {"a": 1, "a": 2}, "y": 1e400, "z": [1]}';
    const read = readJson(text, {
      turn: null,
      metadata: 'all',
      answer: { metadata: 'all' },
      list: ['all'],
      y: 'all',
      '*': 'all',
    });
    assert.deepEqual(read, {
      turn: 1,
      metadata: new KeptJson('{"seed":9223372036854775783}'),
      answer: { reward: 2, metadata: new KeptJson('[1.0]') },
      list: [new KeptJson('{"3":1,"1":2}'), new KeptJson('{"1":1}')],
      x: new KeptJson('{"a":1,"a":2}'),
      y: new KeptJson('1e400'),
      z: new KeptJson('[1]'),
    });
    assert.equal(
      writeJson(read),
      '{"turn":1,"metadata":{"seed":9223372036854775783},"answer":{"reward":2,"metadata":[1.0]},' +
        '"list":[{"3":1,"1":2},{"1":1}],"x":{"a":1,"a":2},"y":1e400,"z":[1]}',
    );
  });

  test('refuses what is no JSON like JSON.parse, whatever is foreign', () => {
    for (const text of [
      '',
      '{',
      '{"a":1.0,}',
      '[1.0',
      '{"a":1.0} x',
      'NaN',
      '{"a":01}',
      '"\\x"',
      '{"a" 1.0}',
    ]) {
      assert.throws(() => readJson(text), SyntaxError, text);
      assert.throws(() => readJson(text, { a: 'all' }), SyntaxError, text);
      assert.throws(() => readJson(text, ['all']), SyntaxError, text);
    }
  });

  test('of thousands of levels, members and escapes takes no stack and linear time', () => {
    // Four times as deep as any text that is read, and not too deep for `JSON.stringify`.
    const deep = '['.repeat(2000) + '1.0' + ']'.repeat(2000);
    assert.equal(writeJson(readJson(deep)), deep);
    const wide = `{${Array.from({ length: 100_000 }, (_, at) => `"k${at}":1.0`).join(',')}}`;
    assert.equal(writeJson(readJson(wide)), wide);
    const long = `{"a":"${'\\\\'.repeat(8_000_000)}","b":1.0}`;
    assert.equal(writeJson(readJson(long)) === long, true);
  });
});

describe('the writer', () => {
  test('writes what JSON.stringify writes, if nothing is kept as text', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        assert.equal(writeJson(value), JSON.stringify(value));
      }),
    );
  });

  test('writes everything else as JSON.stringify does, beside what is kept as text', () => {
    const odd = {
      at: new Date(0),
      none: undefined,
      call: () => 1,
      list: [undefined, NaN, -0, () => 1, Symbol('x')],
      empty: [{}, []],
      deep: { of: [{ a: [1, [2]] }] },
      named: { toJSON: (name: string) => ({ name }) },
    };
    const without = JSON.stringify({ ...odd, kept: 1 });
    assert.equal(writeJson({ ...odd, kept: new KeptJson('1') }), without);
  });

  test('writes text that is kept anywhere in a value, on one line', () => {
    const kept = keptJson('{ "a" :\n 1.0,\t"b": " \\" x" }');
    const text = '{"a":1.0,"b":" \\" x"}';
    assert.equal(kept.text, text);
    assert.equal(writeJson(kept), text);
    assert.equal(writeJson([1, { x: [kept] }]), `[1,{"x":[${text}]}]`);
  });

  test('of text with the characters of any mark that a writer might leave', () => {
    const kept = [new KeptJson('1.0'), new KeptJson('{"1.0":2.0}')];
    const all = Array.from({ length: 0x300 }, (_, at) => String.fromCharCode(at)).join('');
    const text = writeJson({ all, kept, again: [all, kept[0]] });
    assert.equal(
      text,
      `{"all":${JSON.stringify(all)},"kept":[1.0,{"1.0":2.0}],"again":[${JSON.stringify(all)},1.0]}`,
    );
  });
});

describe('text that is kept', () => {
  test('gives the nearest plain value to whoever needs one', () => {
    const kept = new KeptJson('{"a":1.0,"b":9007199254740993}');
    assert.deepEqual(plainOf(kept), { a: 1, b: 9007199254740992 });
    assert.deepEqual(plainOf({ a: 1 }), { a: 1 });
    assert.equal(JSON.stringify({ kept }), '{"kept":{"a":1,"b":9007199254740992}}');
  });

  test('names the first number that no double holds', () => {
    for (const [text, loss] of [
      [
        '{"a":[0,{"seed":9223372036854775783}]}',
        { path: ['a', 1, 'seed'], got: '9223372036854775783' },
      ],
      ['[-9007199254740993]', { path: [0], got: '-9007199254740993' }],
      ['{"x":1,"a":1e400}', { path: ['a'], got: '1e400' }],
      ['{"a":{},"b":[[],[1,-0.01e-400]]}', { path: ['b', 1, 1], got: '-0.01e-400' }],
      ['9007199254740992', { path: [], got: '9007199254740992' }],
    ] as const)
      assert.deepEqual(firstLostNumber(text), loss);
    for (const text of [
      '1.0',
      '-0',
      '0e400',
      '0.0E5',
      '1e20',
      '0.1234567890123456789',
      '{"9007199254740993":"9007199254740993"}',
      '9007199254740991',
    ])
      assert.equal(firstLostNumber(text), null, text);
  });
});
