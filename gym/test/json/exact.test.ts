import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Json } from '../../json/exact.js';
import { formatJson, isNumber, isObject, parseJson } from '../../json/exact.js';
import { entriesOf, filtered, namesOf } from '../../../src/platform/json/order.js';
import { dumpJson } from '../../python/json.js';
import { reprOf } from '../../python/repr.js';
import { jsonText, tokensOf } from '../../../test/platform/json/json-text.js';

const NAMES = ['3', '1', '10', '0', '01', '-1', '4294967295', 'a', 'b', '', '\\u0037', 'toJSON'];

/** Texts without repeated names. */
const text: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4, depthSize: 'medium' },
    fc.constantFrom('null', 'true', '"3"', '"\\"3\\":"', '1.0', '1e400', '9007199254740993'),
    fc.array(tie('value'), { maxLength: 3 }).map((items) => `[${items.join(', ')}]`),
    fc
      .uniqueArray(fc.tuple(fc.constantFrom(...NAMES), tie('value')), {
        selector: ([name]) => name,
        maxLength: 8,
      })
      .map((members) => `{ ${members.map(([name, value]) => `"${name}" : ${value}`).join(' ,')}}`),
  ),
})).value;

describe('rows of others', () => {
  test('are written as they were read: numbers, and the order of names that are whole numbers', () => {
    fc.assert(
      fc.property(text, (json) => {
        assert.deepEqual(tokensOf(formatJson(parseJson(json))), tokensOf(json));
      }),
      { numRuns: 2000 },
    );
  });

  test('are the values of JSON.parse, and its errors', () => {
    const plain = (value: Json): unknown =>
      isNumber(value)
        ? Number(value.text)
        : Array.isArray(value)
          ? value.map(plain)
          : isObject(value)
            ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, plain(one)]))
            : value;
    const outcome = (read: () => unknown): unknown => {
      try {
        return read();
      } catch (error) {
        return String(error);
      }
    };
    fc.assert(
      fc.property(jsonText, fc.constantFrom('', '', ',', 'x', '"'), (json, end) => {
        const broken = json + end;
        assert.deepEqual(
          outcome(() => plain(parseJson(broken))),
          outcome(() => JSON.parse(broken) as unknown),
        );
      }),
      { numRuns: 2000 },
    );
  });

  test('show their names in this order to Python’s texts of them', () => {
    const value = parseJson('{"3": "c", "1": {"20": 1, "5": 2}, "a": [{"2": 0, "1": 0}]}');
    assert.equal(reprOf(value), "{'3': 'c', '1': {'20': 1, '5': 2}, 'a': [{'2': 0, '1': 0}]}");
    assert.equal(dumpJson(value), '{"3": "c", "1": {"20": 1, "5": 2}, "a": [{"2": 0, "1": 0}]}');
  });

  test('keep it in copies, and what is added comes last', () => {
    const value = parseJson('{"b": 1, "3": 2, "1": 3}');
    assert.ok(isObject(value));
    const copy = { ...value, '0': null, '3': null };
    assert.equal(formatJson(copy), '{"b":1,"3":null,"1":3,"0":null}');
    assert.equal(formatJson(filtered(copy, (name) => name !== 'b')), '{"3":null,"1":3,"0":null}');
    assert.deepEqual(namesOf(value), ['b', '3', '1']);
    assert.deepEqual(entriesOf({ b: 1, '1': 2 }), Object.entries({ b: 1, '1': 2 }));
  });

  test('are read and written at any depth that is parsed', () => {
    const deep = `${'{"3":'.repeat(400)}{"2":1,"1":2}${'}'.repeat(400)}`;
    assert.equal(formatJson(parseJson(deep)), deep);
  });
});
