/** Two trainers by mistake on one service: each update of the one that does not hold it is refused before an engine is touched. */
import assert from 'node:assert/strict';
import { describe, test, type TestContext } from 'node:test';
import type { PolicyOrder } from '../../src/activities/contract/policy.js';
import type { Heard } from '../../src/model/workflow-safe/hold.js';
import { A, B, fleet } from '../fakes/held-fleet.js';

const HOLDER = { name: 'math-1', incarnation: 'new' };
const OLD = { name: 'math-1', incarnation: 'old' };
const OTHER = { name: 'math-2', incarnation: 'x' };
const WHO = {
  'the holder': { holder: HOLDER },
  'another name': { holder: OTHER },
  'the holder’s process of before': { holder: OLD },
  nobody: { holder: null },
  'another name that takes over': { holder: OTHER, take_over: true },
} as const;
type Who = keyof typeof WHO;

const HELD = /holder: "math-1" has held the service since .*; got "math-2"\./;
const NONE = /holder: "math-1" has held the service since .*; got none\./;
const OVER = /holder: "math-1" \(incarnation "old"\) was superseded: incarnation "new"/;
/** What the schema says of a field that it requires, or does not have. */
const FIELD = /holder: |take_over/;

/** Version 19 is the holder's, and 18 its earlier process's. */
async function held(t: TestContext) {
  const { bench, records, engines } = await fleet(t, { path: '/w/17' });
  const service = 'default';
  const publish = (version: number, given: object) => ({
    service,
    name: 'publish' as const,
    input: { version, weights: { kind: 'checkpoint', path: `/w/${version}` }, ...given },
  });
  await bench.result('takeOrder', publish(18, { holder: OLD }));
  await bench.result('takeOrder', publish(19, { holder: HOLDER }));
  for (const engine of engines) {
    engine.adapters = () => Promise.resolve([]);
    engine.calls.length = 0;
  }
  const lora = { kind: 'lora', path: '/w/lora' };
  const ask: Record<string, (who: object) => PolicyOrder> = {
    publish: (who) => publish(20, who),
    'publish of an adapter': (who) => publish(20, { ...who, weights: lora }),
    begin: (who) => ({ service, name: 'begin', nonce: 'n', input: { probe: null, ...who } }),
    sleep: (input) => ({ service, name: 'sleep', nonce: 's', input }),
    release: (input) => ({ service, name: 'release', input }),
  };
  const order = (name: PolicyOrder['name'], input: object) =>
    bench.result('takeOrder', { service, name, nonce: 'n', input });
  return { ask, bench, records, engines, order, publish };
}

/** null: it is right. */
const CROSSED: Record<string, Record<Who, RegExp | null>> = {
  publish: row(null, HELD, OVER, NONE, null),
  'publish of an adapter': row(null, HELD, OVER, NONE, null),
  begin: row(null, HELD, OVER, FIELD, null),
  sleep: row(null, HELD, OVER, FIELD, FIELD),
  release: row(null, /holder: expected "math-1", .*, got "math-2"/, OVER, FIELD, FIELD),
};

function row(...says: (RegExp | null)[]): Record<Who, RegExp | null> {
  const names = Object.keys(WHO) as Who[];
  return Object.fromEntries(names.map((who, i) => [who, says[i] ?? null])) as Record<
    Who,
    RegExp | null
  >;
}

for (const [name, row] of Object.entries(CROSSED))
  describe(`\`${name}\` of a service that a trainer holds`, () => {
    for (const [who, says] of Object.entries(row))
      test(`${says === null ? 'is right' : 'is refused'} by ${who}`, async (t) => {
        const { ask, bench, engines, records } = await held(t);
        const given = ask[name]!(WHO[who as Who]);
        const before = await records.latest();
        if (says === null) {
          await bench.result('takeOrder', given);
          return;
        }
        const { type, message } = await bench.failure('takeOrder', given);
        assert.equal(type, 'PolicyUpdateFailed');
        assert.match(message, says);
        assert.deepEqual(await records.latest(), before);
        assert.deepEqual(
          engines.map(({ calls }) => calls),
          [[], []],
        );
      });
  });

describe('what names no trainer', () => {
  for (const [name, input] of [
    ['engines', { owner: 'job-2', urls: [A, B], replace: false }],
    ['join', { url: B }],
    ['drain', { url: B }],
    ['leave', { url: B }],
  ] as const)
    test(`is right while one holds the service: \`${name}\``, async (t) => {
      const { order } = await held(t);
      await order(name, input);
    });

  test('is right while one holds the service: `attach` of a version, and `wake`', async (t) => {
    const { bench, order } = await held(t);
    await order('wake', {});
    await order('attach', { version: 19, checkpoint: '/w/19' });
    const input = { version: 19, checkpoint: '/w/of-another' };
    const other: PolicyOrder = { service: 'default', name: 'attach', input };
    const { message } = await bench.failure('takeOrder', other);
    assert.match(message, /checkpoint: version 19 has "\/w\/19", got "\/w\/of-another"/);
  });
});

describe('a transfer', () => {
  test('is ended by nobody’s name, and not taken over before it ends', async (t) => {
    const { bench, order } = await held(t);
    await order('begin', { probe: null, holder: HOLDER });
    const weights = { kind: 'checkpoint', path: '/w/30' };
    for (const [name, input] of [
      ['begin', { holder: OTHER, take_over: true }],
      ['publish', { version: 30, weights, holder: OTHER, take_over: true }],
      ['release', { holder: { name: 'math-1' } }],
      ['finish', { ticket: 'other', sent: [0] }],
      ['abandon', { ticket: 'other', touched: [] }],
    ] as const) {
      const given: PolicyOrder = { service: 'default', name, nonce: 'm', input };
      const { message } = await bench.failure('takeOrder', given);
      assert.match(message, /"math-1" \(incarnation "new"\).* has the engines for version 20/);
    }
    await order('finish', { ticket: 'n', sent: [0, 1] });
  });
});

describe('a version', () => {
  test('keeps who has brought it, and whether it took the service over', async (t) => {
    const { bench, records, publish } = await held(t);
    await bench.result('takeOrder', publish(20, WHO['another name that takes over']));
    const record = await records.latest();
    const { holder, take_over } = record!.weights['20']!;
    assert.deepEqual([holder, take_over], [OTHER, true]);
    assert.equal(record!.holding.hold?.took_from, 'math-1');
  });

  test('that another trainer completes stays the first one’s', async (t) => {
    const { bench, order, records, publish } = await held(t);
    await order('release', { holder: { name: 'math-1' } });
    await bench.result('takeOrder', publish(19, { holder: OTHER }));
    const { weights, holding } = (await records.latest())!;
    assert.deepEqual(weights['19']!.holder, HOLDER);
    assert.deepEqual(
      holding.courses.map(({ name, first }) => [name, first]),
      [['math-1', 18]],
    );
    assert.equal(holding.hold?.name, 'math-2');
  });
});

test('a trainer that its policy has heard lately keeps the service, however long its step', async (t) => {
  const { bench, records, publish } = await held(t);
  const hour = 3_600_000;
  await records.change(
    (now) =>
      now && {
        ...now,
        holding: { ...now.holding, hold: { ...now.holding.hold!, at: Date.now() - hour } },
      },
  );
  const heard: Heard = { since: 0, last: [{ ...HOLDER, at: Date.now() - 60_000 }] };
  const asked = { ...publish(20, { holder: OTHER }), heard };
  assert.match((await bench.failure('takeOrder', asked)).message, HELD);
  await bench.result('takeOrder', { ...asked, heard: { since: 0, last: [] } });
});
