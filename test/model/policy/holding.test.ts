/** Who may bring weights to a service: one trainer at a time, and the newest process of its name. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Holder } from '../../../src/model/policy/orders.js';
import { Release } from '../../../src/model/policy/orders.js';
import type { PolicyRecord } from '../../../src/model/policy/record.js';
import { PolicyRecord as Schema, firstRecord } from '../../../src/model/policy/record.js';
import {
  refusalOfHolder,
  refusalOfRelease,
  released,
  withHolder,
} from '../../../src/model/policy/holding.js';
import { viewOf } from '../../../src/model/policy/view.js';
import type { Heard } from '../../../src/model/workflow-safe/hold.js';
import { HOLD_MS, hears } from '../../../src/model/workflow-safe/hold.js';

const at = (minutes: number): number => Date.UTC(2026, 0, 1) + minutes * 60_000;
const of = (name: string, incarnation = 'one'): Holder => ({ name, incarnation });
const NOTHING: Heard = { since: 0, last: [] };

interface Brings {
  by: Holder | null;
  version: number;
  minute?: number;
  take_over?: boolean;
  heard?: Heard;
  anew?: boolean;
}

const refusal = (record: PolicyRecord, given: Omit<Brings, 'version'>): string | null => {
  const { by, minute = 0, take_over = false, heard = NOTHING } = given;
  return refusalOfHolder(record, { holder: by, take_over, heard, now: at(minute) });
};

/** The record after these have brought their versions, each of which was served. */
const after = (...all: Brings[]): PolicyRecord =>
  all.reduce<PolicyRecord>(
    (record, { by, version, minute = 0, take_over = false, heard = NOTHING, anew = true }) => {
      assert.equal(refusal(record, { by, minute, take_over, heard }), null);
      const asking = { holder: by, take_over, heard, now: at(minute) };
      const held = withHolder(record, { ...asking, version, anew });
      return { ...held, version, target: version };
    },
    firstRecord(['http://a/v1']),
  );

const A = of('math-1');
const B = of('math-2');
const mine = { by: A, version: 1 };

describe('a service that a trainer holds', () => {
  test('is refused to another one, with its name, since when, and the ways on', () => {
    const said = refusal(after(mine), { by: B, minute: 1 });
    assert.equal(
      said,
      'holder: "math-1" has held the service since 2026-01-01T00:00:00.000Z, and was last heard at 2026-01-01T00:00:00.000Z; got "math-2". A hold ends 5 min after its last sign of life, or by `release` of "math-1"; `publish` or `begin` with `take_over` takes the service from it',
    );
  });

  test('is refused to who does not say who it is', () => {
    assert.match(refusal(after(mine), { by: null }) ?? '', /"math-1" has held .* got none\./);
  });

  test('goes to who takes it over, which the record keeps', () => {
    const record = after(mine, { by: B, version: 2, minute: 1, take_over: true });
    const { hold } = record.holding;
    assert.deepEqual([hold?.name, hold?.took_from, hold?.since], ['math-2', 'math-1', at(1)]);
    assert.match(refusal(record, { by: A, minute: 2 }) ?? '', /"math-2" has held/);
  });

  test('is taken over by nobody without a name', () => {
    const said = refusal(after(mine), { by: null, take_over: true });
    assert.equal(said, 'take_over: expected a holder beside it, got none');
  });

  test('is anybody’s five minutes after the last sign of life, and not before', () => {
    const record = after(mine);
    const heard = hears(NOTHING, { news: { holder: A }, at: at(3) });
    const almost = at(3) + HOLD_MS - 1;
    const ask = (now: number) =>
      refusalOfHolder(record, { holder: B, take_over: false, heard, now });
    assert.match(ask(almost) ?? '', /was last heard at 2026-01-01T00:03/);
    assert.equal(ask(almost + 1), null);
    assert.equal(refusal(record, { by: null, minute: 9, heard }), null);
  });

  test('stays its own where another process of its name, or another name, is heard', () => {
    const others = [of('math-1', 'two'), B].reduce(
      (heard, holder) => hears(heard, { news: { holder }, at: at(4) }),
      NOTHING,
    );
    assert.equal(refusal(after(mine), { by: B, minute: 6, heard: others }), null);
  });

  test('is nobody else’s before a policy that has just begun to listen has waited as long', () => {
    const heard = { since: at(60), last: [] };
    assert.match(refusal(after(mine), { by: B, minute: 64, heard }) ?? '', /"math-1" has held/);
    assert.equal(refusal(after(mine), { by: B, minute: 65, heard }), null);
  });

  test('is held for the time of its name, whichever process it is', () => {
    const record = after(mine, { by: of('math-1', 'two'), version: 2, minute: 3 });
    assert.equal(record.holding.hold?.since, at(0));
    assert.equal(record.holding.hold.incarnation, 'two');
  });

  test('keeps nobody’s signal that is none', () => {
    for (const news of [null, 1, {}, { holder: 'a' }, { holder: { name: 'a' } }])
      assert.equal(hears(NOTHING, { news, at: at(0) }), NOTHING);
    const long = { name: 'a'.repeat(201), incarnation: 'one' };
    assert.equal(hears(NOTHING, { news: { holder: long }, at: at(0) }), NOTHING);
  });

  test('remembers the last eight that were heard', () => {
    const names = Array.from({ length: 20 }, (_, i) => of(`run-${i}`));
    const heard = names.reduce((so, holder) => hears(so, { news: { holder }, at: 1 }), NOTHING);
    assert.deepEqual(
      heard.last.map(({ name }) => name),
      names.slice(-8).map(({ name }) => name),
    );
  });
});

describe('a process whose name another one has', () => {
  const two = of('math-1', 'two');

  test('is refused for ever, also by who takes over', () => {
    const record = after(mine, { by: two, version: 2 });
    for (const minute of [0, 1000]) {
      const said = refusal(record, { by: A, minute });
      assert.equal(
        said,
        'holder: "math-1" (incarnation "one") was superseded: incarnation "two" has its name now',
      );
    }
    assert.match(refusal(record, { by: A, take_over: true }) ?? '', /was superseded/);
  });

  test('stays refused after others have held the service between, and after a release', () => {
    const between = after(
      mine,
      { by: B, version: 2, minute: 10 },
      { by: two, version: 3, minute: 20 },
      { by: B, version: 4, minute: 30 },
    );
    assert.match(refusal(between, { by: A, minute: 40 }) ?? '', /was superseded/);
    assert.match(refusal(released(between), { by: A, minute: 30 }) ?? '', /was superseded/);
    assert.equal(refusal(released(between), { by: two, minute: 30 }), null);
  });

  test('is not one that was only overtaken by another name', () => {
    const record = after(
      mine,
      { by: B, version: 2, minute: 10 },
      { by: A, version: 3, minute: 20 },
    );
    assert.equal(refusal(record, { by: A, minute: 20 }), null);
  });
});

describe('a release', () => {
  const ask = (record: PolicyRecord | null, holder: object) =>
    refusalOfRelease(record, Release.parse({ holder }));

  test('of the holder lets everybody bring weights', () => {
    const record = after(mine);
    assert.equal(ask(record, { name: 'math-1' }), null);
    assert.equal(refusal(released(record), { by: null }), null);
    assert.equal(refusal(released(record), { by: B }), null);
  });

  test('of another name is refused by the holder’s', () => {
    assert.match(ask(after(mine), { name: 'math-2' }) ?? '', /expected "math-1", .* got "math-2"/);
  });

  test('by a process whose name another one has is refused', () => {
    const record = after(mine, { by: of('math-1', 'two'), version: 2 });
    assert.match(ask(record, A) ?? '', /was superseded: incarnation "two"/);
  });

  test('where nobody holds the service changes nothing', () => {
    assert.equal(ask(released(after(mine)), { name: 'math-9' }), null);
    assert.equal(ask(null, { name: 'math-9' }), null);
  });
});

describe('who has brought a version', () => {
  test('is known from the first one of each trainer, with what it found', () => {
    const record = after(
      { by: null, version: 2 },
      { by: A, version: 5 },
      { by: of('math-1', 'two'), version: 6, minute: 1 },
      { by: B, version: 9, minute: 2, take_over: true },
    );
    assert.deepEqual(record.holding.courses, [
      { name: null, first: 2, found: null },
      { name: 'math-1', first: 5, found: 2 },
      { name: 'math-2', first: 9, found: 6 },
    ]);
    assert.deepEqual(viewOf(record).courses, record.holding.courses);
  });

  test('is not who completes it', () => {
    const record = after(mine, { by: B, version: 1, minute: 9, anew: false });
    assert.deepEqual(record.holding.courses, [{ name: 'math-1', first: 1, found: null }]);
    assert.equal(record.holding.hold?.name, 'math-2');
  });

  test('is who begins it anew, where no engine has served it', () => {
    const record = after(mine, { by: A, version: 3 }, { by: B, version: 3, minute: 9 });
    assert.deepEqual(
      record.holding.courses.map(({ name, first }) => [name, first]),
      [
        ['math-1', 1],
        ['math-2', 3],
      ],
    );
  });

  test('is remembered for the last 32 trainers', () => {
    const all = Array.from({ length: 40 }, (_, i) => ({
      by: of(`run-${i}`),
      version: i,
      minute: 10 * i,
    }));
    const { courses, incarnations } = after(...all).holding;
    assert.deepEqual([courses.length, courses[0]?.name, incarnations.length], [32, 'run-8', 40]);
  });
});

test('a record from before there were holders has none', () => {
  const { holding, ...before } = firstRecord(['http://a/v1']);
  assert.deepEqual(Schema.parse(before).holding, holding);
  assert.equal('hold' in viewOf(Schema.parse(before)), false);
});
