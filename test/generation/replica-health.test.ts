import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Health, HealthEvent } from '../../src/generation/replicas/replica-health.js';
import { HEALTHY, nextHealth } from '../../src/generation/replicas/replica-health.js';

type Told = HealthEvent & { at: number; random?: number };

const after = (...news: Told[]): Health =>
  news.reduce((health, one) => nextHealth(health, { random: 0, ...one }), HEALTHY);
const fault = (at: number, more: Partial<HealthEvent & { kind: 'fault' }> = {}): Told => ({
  kind: 'fault',
  at,
  sent_at: at,
  retry_after_ms: null,
  ...more,
});

describe('a replica that fails', () => {
  test('is set aside for a second', () => {
    assert.deepEqual(after(fault(5000)), {
      aside: { until: 6000, asked: false },
      since: 5000,
      failures: 1,
    });
  });

  test('is probed after 1, 2, 4, 8, 16 and then every 30 s', () => {
    let health = after(fault(0));
    let at = 0;
    const pauses = Array.from({ length: 8 }, () => {
      const until = health.aside!.until;
      const pause = until - at;
      at = until;
      health = nextHealth(health, { kind: 'unanswered', at, random: 0 });
      return pause;
    });
    assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000]);
  });

  test('under many requests at once has failed once', () => {
    assert.deepEqual(after(fault(10), fault(11, { sent_at: 3 }), fault(12)), after(fault(10)));
  });

  test('and asks for time gets that time, not more and not less', () => {
    for (const asked of [0, 200, 60_000]) {
      const { aside } = after(fault(10, { retry_after_ms: asked }));
      assert.deepEqual(aside, { until: 10 + asked, asked: true });
    }
    const later = after(fault(10), fault(20, { retry_after_ms: 5000 }));
    assert.deepEqual(later.aside, { until: 5020, asked: true });
    const sooner = after(fault(10), fault(20, { retry_after_ms: 100 }));
    assert.deepEqual(sooner, after(fault(10)));
  });
});

describe('a replica that is set aside', () => {
  test('comes back when a probe is answered', () => {
    const health = after(fault(0), { kind: 'answered', at: 1000 });
    assert.deepEqual([health.aside, health.since], [null, 1000]);
  });

  test('comes back when a generation succeeds that was sent since', () => {
    assert.deepEqual(after(fault(0), { kind: 'success', at: 900, sent_at: 500 }).aside, null);
    assert.deepEqual(after(fault(10), { kind: 'success', at: 900, sent_at: 5 }), after(fault(10)));
  });

  test('stays so for as long as it has asked for', () => {
    const asked = after(fault(0, { retry_after_ms: 5000 }));
    for (const kind of ['answered', 'paused'] as const) {
      assert.equal(nextHealth(asked, { kind, at: 4999, random: 0 }), asked);
      assert.equal(nextHealth(asked, { kind, at: 5000, random: 0 }).aside, null);
    }
  });

  test('because it is being paused has not failed', () => {
    const health = after(fault(10), { kind: 'paused', at: 12 });
    assert.deepEqual([health.aside, health.failures], [null, 0]);
  });
});

describe('a replica that is back', () => {
  const back = [fault(0), { kind: 'answered', at: 1000 } as const];

  test('is not set aside by what was sent before it failed', () => {
    assert.deepEqual(after(...back, fault(2000, { sent_at: 900 })), after(...back));
  });

  test('is set aside again by what was sent at the moment when it came back', () => {
    const back = [fault(0), { kind: 'answered', at: 1000 } as const];
    assert.notEqual(after(...back, fault(1010, { sent_at: 1000 })).aside, null);
    assert.equal(after(...back, fault(1010, { sent_at: 999 })).aside, null);
  });

  test('and answers probes only, not generations, is set aside for longer each time', () => {
    const health = after(...back, fault(1500));
    assert.deepEqual(health.aside, { until: 3500, asked: false });
  });

  test('and generates begins anew', () => {
    const health = after(...back, { kind: 'success', at: 1400, sent_at: 1100 }, fault(1500));
    assert.deepEqual(health.aside, { until: 2500, asked: false });
  });
});

test('whatever happens: a pause is at most 30 s unless asked for, never ends before it began, and failures are counted from zero', () => {
  const time = fc.integer({ min: 0, max: 5000 });
  const event: fc.Arbitrary<HealthEvent> = fc.oneof(
    fc.record({
      kind: fc.constant('fault' as const),
      sent_at: time,
      retry_after_ms: fc.option(fc.integer({ min: 0, max: 60_000 })),
    }),
    fc.record({ kind: fc.constant('success' as const), sent_at: time }),
    fc.record({
      kind: fc.constantFrom('answered' as const, 'unanswered' as const, 'paused' as const),
    }),
  );
  const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
  const story = fc.array(fc.record({ event, passed: time, random }), { maxLength: 60 });
  fc.assert(
    fc.property(story, (steps) => {
      let at = 0;
      let health = HEALTHY;
      for (const step of steps) {
        at += step.passed;
        const before = health;
        health = nextHealth(before, { ...step.event, at, random: step.random });
        assert.ok(health.failures >= 0);
        assert.ok(health.since <= at);
        if (health.aside === null) continue;
        assert.ok(health.failures > 0);
        assert.ok(health.aside.until >= health.since);
        if (health.aside !== before.aside && !health.aside.asked) {
          const pause = health.aside.until - at;
          assert.ok(pause >= 750 - 1e-6 && pause <= 30_000, `a pause of ${pause} ms`);
        }
      }
    }),
  );
});
