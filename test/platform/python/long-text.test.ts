/** Text that a policy or a user may write, at the length from which a repeated group overflows the stack. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { LosslessNumber } from 'lossless-json';
import { act, parseAction } from '../../../src/environments/sliding-puzzle/actions.js';
import { formatMap } from '../../../src/platform/python/format-map.js';
import { parseFloatText, parseIntText } from '../../../src/platform/python/numbers.js';
import { isDigits } from '../../../src/platform/python/text.js';
import { processorTime_ms } from '../../harness/processor-time.js';
import { parseOverrideValue } from '../../../gym/config/override-value.js';
import { parseYaml } from '../../../gym/config/yaml-text.js';

const LENGTH = 16_000_000;
const filled = (part: string): string => part.repeat(LENGTH / part.length);

const TEXTS: Record<string, string> = {
  'digits and underscores': `1${filled('_1')}`,
  'digits and a letter behind them': `${filled('1')}x`,
  'digits of two units': filled('𝟙'),
  brackets: `a${filled('[b]')}`,
};

const STATE = {
  size: 2,
  grid: [
    [1, 2],
    [3, 0],
  ],
  solution: [
    [1, 2],
    [3, 0],
  ],
  empty_pos: [1, 1],
  commands: {},
};

/** Each answers, or throws an error that says what it expects; none may overflow the stack. */
const READERS: Record<string, (text: string) => unknown> = {
  parseFloatText,
  parseIntText,
  isDigits,
  'a move': (text) => act(`slide ${text} 1`, STATE as never).response,
  'an action': (text) => parseAction(`<action>${text}</action>`)?.length,
  'a template': (text) => formatMap(`{${text}}`, {}),
};

describe('text of 16 million characters', () => {
  for (const [what, text] of Object.entries(TEXTS)) {
    test(`is read in linear time, without the stack: ${what}`, () => {
      for (const [name, read] of Object.entries(READERS)) {
        const began = processorTime_ms();
        try {
          read(text);
        } catch (error) {
          assert.ok(
            error instanceof Error && !(error instanceof RangeError),
            `${name}: ${String(error).slice(0, 200)}`,
          );
        }
        const took_ms = processorTime_ms() - began;
        assert.ok(took_ms < 10_000, `${name}: ${took_ms} ms`);
      }
    });
  }
});

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
    assert.deepEqual(parseOverrideValue(most), new LosslessNumber(most));
    assert.throws(
      () => parseOverrideValue(`-${most}1`),
      /expected a number of at most 4300 digits, got 4301: quote it/,
    );
    assert.deepEqual(parseYaml(`a: ${'1'.repeat(4300)}`, 'a.yaml'), {
      a: new LosslessNumber(most),
    });
    assert.deepEqual(parseYaml(`a: ${most}1`, 'a.yaml'), { a: `${most}1` });
  });
});
