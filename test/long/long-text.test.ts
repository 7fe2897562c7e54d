/** Text that a policy or a user may write, at the length from which a repeated group overflows the stack. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { act, parseAction } from '../../src/environments/sliding-puzzle/actions.js';
import { formatMap } from '../../gym/python/format-map.js';
import { parseFloatText, parseIntText } from '../../src/platform/python/numbers.js';
import { isDigits } from '../../src/platform/python/text.js';
import { processorTime_ms } from '../harness/processor-time.js';

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
