import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { nothingSeen, StreamWorld } from './stream-world.js';

/** `PACING_HISTORIES=100000` plays so many. */
const HISTORIES = Number(process.env['PACING_HISTORIES'] ?? 3000);

const settings = fc.record({
  groups_per_step: fc.integer({ min: 1, max: 4 }),
  max_lag: fc.integer({ min: 0, max: 4 }),
  versions_per_step: fc.integer({ min: 1, max: 3 }),
  when_stale: fc.constantFrom('wait' as const, 'wait' as const, 'drop' as const, 'mask' as const),
  num_repeats: fc.integer({ min: 1, max: 3 }),
  max_in_flight: fc.oneof(fc.integer({ min: 1, max: 8 }), fc.constant(256)),
  samples: fc.integer({ min: 1, max: 12 }),
  epochs: fc.oneof(fc.constant(null), fc.integer({ min: 1, max: 6 })),
});

const history = fc.record({
  settings,
  steady: fc.boolean(),
  hasPolicy: fc.boolean(),
  trouble: fc.constantFrom(0, 0, 2, 8, 15, 16),
  unknown: fc.constantFrom(0, 0, 1, 3, 9),
  choices: fc.array(fc.integer({ min: 0, max: 0xffff }), { maxLength: 200, size: 'max' }),
});

describe(`${HISTORIES} histories of a stream`, () => {
  test('each decision is the model’s; steady versions lose nothing and make nothing too old; a step always comes', (t) => {
    const seen = nothingSeen();
    fc.assert(
      fc.property(history, (one) => {
        new StreamWorld(one, seen).play();
      }),
      { numRuns: HISTORIES, includeErrorInReport: true },
    );
    for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `${what}: never seen`);
    t.diagnostic(JSON.stringify(seen));
  });
});
