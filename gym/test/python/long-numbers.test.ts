import { KeptJson } from '../../../src/platform/json/kept.js';
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { parseIntText } from '../../../src/platform/python/numbers.js';
import { processorTime_ms } from '../../../test/harness/processor-time.js';
import { parseOverrideValue } from '../../config/override-value.js';
import { parseYaml } from '../../config/yaml-text.js';

describe('a number', () => {
  test('of an override is read in linear time, with as much as an argument of a command can have', () => {
    const began = processorTime_ms();
    for (const end of ['x', '', '_1', '__1'])
      for (const part of ['1', '1_1']) parseOverrideValue(`0${part.repeat(60_000)}${end}`);
    assert.ok(processorTime_ms() - began < 3000);
  });

  test('has as many digits as Python reads', () => {
    const most = '1'.repeat(4300);
    assert.equal(parseIntText(most), Infinity);
    assert.equal(parseIntText(`${most}1`), null);
    assert.equal(parseIntText(`-0_${'0'.repeat(4298)}7`), -7);
    assert.deepEqual(parseOverrideValue(most), new KeptJson(most));
    assert.throws(
      () => parseOverrideValue(`-${most}1`),
      /expected a number of at most 4300 digits, got 4301: quote it/,
    );
    assert.deepEqual(parseYaml(`a: ${'1'.repeat(4300)}`, 'a.yaml'), {
      a: new KeptJson(most),
    });
    assert.deepEqual(parseYaml(`a: ${most}1`, 'a.yaml'), { a: `${most}1` });
  });
});
