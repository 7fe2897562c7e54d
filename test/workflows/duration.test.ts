import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { Duration, toMs } from '../../src/model/durations.js';
import { durationMs, durationProblem } from '../../src/workflows/duration.js';

const UNITS = ['ms', 'msecs', 'second', 's', 'Secs', 'm', 'mins', 'minutes', 'h', 'hrs', 'hours', 'd', 'days', 'w', 'weeks', 'y', 'yrs', 'years', 'mo', 'fortnight', '']; // prettier-ignore

const text = fc.oneof(
  fc
    .tuple(
      fc.oneof(fc.nat(), fc.double({ min: 0, max: 1e6, noNaN: true })),
      fc.constantFrom('', ' ', '  ', '-'),
      fc.constantFrom(...UNITS),
    )
    .map(([amount, gap, unit]) => `${amount}${gap}${unit}`),
  fc.string(),
);

test('workflows take and refuse the same durations as the model does, in the same words, and read them alike', () => {
  fc.assert(
    fc.property(text, (value) => {
      const parsed = Duration.safeParse(value);
      assert.equal(durationProblem(value), parsed.error?.issues[0]?.message ?? null);
      if (parsed.success) assert.equal(durationMs(value), toMs(value));
    }),
    { numRuns: 2000 },
  );
});

test('what is no text is no duration', () => {
  for (const value of [undefined, null, 90, {}, ['1h']]) {
    assert.equal(durationMs(value), null);
    assert.match(durationProblem(value) ?? '', /^expected a duration such as/);
  }
});
