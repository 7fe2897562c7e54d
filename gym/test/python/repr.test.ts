import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { dumpJson } from '../../python/json.js';
import { formatMap, MissingField } from '../../python/format-map.js';
import { reprOf, strOf } from '../../python/repr.js';
import type { JsonObject } from '../../json/exact.js';
import { parseJson } from '../../json/exact.js';

const RECORDED = parseJson(
  readFileSync(
    new URL('../../../test/goldens/gym_config/python-text.json', import.meta.url),
    'utf8',
  ),
) as unknown as {
  values: { json: string; str: string; in_list: string; dumps: string }[];
  row: JsonObject;
  templates: { template: string; text?: string; error?: string }[];
};

describe('values as Python writes them', () => {
  for (const { json, str, in_list, dumps } of RECORDED.values) {
    test(`${json} has Python's str, repr and json.dumps`, () => {
      const value = parseJson(json);
      assert.equal(strOf(value), str);
      assert.equal(reprOf([value]), in_list);
      assert.equal(dumpJson(value), dumps);
    });
  }
});

describe('templates', () => {
  for (const { template, text, error } of RECORDED.templates) {
    if (text !== undefined) {
      test(`${JSON.stringify(template)} is filled as Python fills it`, () => {
        assert.equal(formatMap(template, RECORDED.row), text);
      });
    } else if (error === 'KeyError' && !/\{\d*\}/.test(template)) {
      test(`${JSON.stringify(template)} lacks a field`, () => {
        assert.throws(() => formatMap(template, RECORDED.row), MissingField);
      });
    } else {
      test(`${JSON.stringify(template)} is refused, with what is supported`, () => {
        const supported = /supported are \{field\}, \{field\[key\]\}|no field/;
        assert.throws(() => formatMap(template, RECORDED.row), supported);
      });
    }
  }
});
