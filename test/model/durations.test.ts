import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Duration } from '../../src/model/field-kinds.js';
import { durationProblem, toMs } from '../../src/model/workflow-safe/durations.js';

describe('Duration', () => {
  const valid: [string, number][] = [
    ['1ms', 1],
    ['500ms', 500],
    ['2s', 2_000],
    ['1.5h', 5_400_000],
    ['2 minutes', 120_000],
    ['90M', 5_400_000],
    ['1d', 86_400_000],
    ['10y', 10 * 365.25 * 86_400_000],
  ];
  for (const [text, milliseconds] of valid) {
    test(`${JSON.stringify(text)} is ${milliseconds} ms, and stays as it is written`, () => {
      assert.equal(Duration.parse(text), text);
      assert.equal(toMs(text), milliseconds);
    });
  }

  const invalid = [
    '',
    '90',
    '0',
    '0s',
    '-1s',
    '1h30m',
    's',
    '1 parsec',
    'soon',
    '1e3s',
    ' 1s',
    'Infinity s',
    `${'9'.repeat(200)}s`,
  ];
  for (const text of invalid) {
    test(`${JSON.stringify(text).slice(0, 30)} is refused, and the message quotes it`, () => {
      const { error } = Duration.safeParse(text);
      assert.ok(error !== undefined);
      const message = error.issues[0]?.message ?? '';
      assert.match(message, /expected a duration such as "30s" or "1h"/);
      assert.ok(message.endsWith(`got ${JSON.stringify(text)}`), message);
    });
  }

  for (const text of ['11y', '99999999999999y']) {
    test(`${text} is refused: timers cannot count so far`, () => {
      const messages = Duration.safeParse(text).error?.issues.map(({ message }) => message);
      assert.deepEqual(messages, [`expected a duration of at most 10 years, got "${text}"`]);
    });
  }

  test('a number is refused: it would not say its unit', () => {
    assert.equal(Duration.safeParse(30).success, false);
    for (const value of [undefined, null, 90, {}, ['1h']])
      assert.match(durationProblem(value) ?? '', /^expected a duration such as/);
  });

  test('toMs of what was never validated throws', () => {
    assert.throws(() => toMs('90'), /not a duration: 90/);
  });
});
