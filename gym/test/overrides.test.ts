import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { mergeConfigs, parseOverrides } from '../config/overrides.js';
import type { Json } from '../json/exact.js';
import { formatJson, isObject, parseJson } from '../json/exact.js';
import { comparable } from './golden-values.js';

const RECORDED = parseJson(
  readFileSync(new URL('../../test/goldens/gym_config/overrides.json', import.meta.url), 'utf8'),
) as [string, { value?: Json; error?: true }][];

const json = (...args: string[]): string => formatJson(parseOverrides(args));

describe("values in Hydra's grammar, as Hydra itself read them", () => {
  for (const [argument, expected] of RECORDED) {
    if (expected.error === true) {
      test(`${argument} is refused`, () => {
        assert.throws(() => parseOverrides([argument]), /not understood|ambiguous|expected/);
      });
    } else {
      test(`${argument} has Hydra's value`, () => {
        const { a } = parseOverrides([argument]);
        assert.deepEqual(comparable(a!), comparable(expected.value!));
      });
    }
  }
});

test("upstream's own example commands come out as they are meant", () => {
  assert.equal(
    json('+agent_name=x', '+num_repeats=4', '+limit=100', '+input_jsonl_fpath=a/b.jsonl'),
    '{"agent_name":"x","num_repeats":4,"limit":100,"input_jsonl_fpath":"a/b.jsonl"}',
  );
  assert.equal(json('+num_repeats={a: 2, _default: 1}'), '{"num_repeats":{"a":2,"_default":1}}');
});

test('a dotted key nests, and a mapping is laid over the existing one', () => {
  assert.equal(
    json('+p.temperature=0.5', '++p={top_p: 1.0, temperature: 1.0}', '+p.m.k=v'),
    '{"p":{"temperature":1.0,"top_p":1.0,"m":{"k":"v"}}}',
  );
});

test('a key given twice with one plus is an error that says how to override', () => {
  assert.throws(() => parseOverrides(['+a=1', '+a=2']), /already at 'a'.*'\+\+a=2'/);
  assert.equal(json('+a=1', '++a=2'), '{"a":2}');
});

test('what is not supported is refused by name', () => {
  assert.throws(() => parseOverrides(['~a']), /~a: nothing can be deleted/);
  assert.throws(() => parseOverrides(['+a=range(1,3)']), /range\(…\).*function of Hydra's/);
  assert.throws(() => parseOverrides(['+a=1,2']), /\[1,2\]/);
  assert.throws(() => parseOverrides(['+db@x=1']), /packages are not supported/);
  assert.throws(() => parseOverrides(['+a=nan']), /nan is no JSON/);
  for (const named of ['+__proto__.a=1', '+a.__proto__=1', '+a={__proto__: {b: 1}}'])
    assert.throws(() => parseOverrides([named]), /no object can keep a field __proto__/);
  assert.equal(Object.hasOwn(Object.prototype, 'a'), false);
});

test('characters that Hydra refuses although they mean nothing are text', () => {
  assert.equal(json('+a=~/données.jsonl'), '{"a":"~/données.jsonl"}');
});

test('merging replaces lists, keeps keys of both mappings, and a missing value keeps the existing one', () => {
  const base = parseJson('{"a":{"x":1,"l":[1,2]},"b":2,"c":3}');
  const over = parseJson('{"a":{"l":[3],"y":2},"b":{"z":1},"c":"???","d":"???"}');
  assert(isObject(base) && isObject(over));
  assert.equal(
    formatJson(mergeConfigs(base, over)),
    '{"a":{"x":1,"l":[3],"y":2},"b":{"z":1},"c":3,"d":"???"}',
  );
});
