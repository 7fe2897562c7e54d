import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Ticket } from '../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { viewOf } from '../../src/model/policy/view.js';
import type { ReplicaState } from '../../src/model/workflow-safe/policy-states.js';
import { whyNothingServes } from '../../src/model/workflow-safe/policy.js';

const view = (version: number | null, ...states: [ReplicaState, string | null][]) => ({
  version,
  weights: {},
  replicas: Object.fromEntries(
    states.map(([state, fault], i) => [`http://${i}`, { state, fault }] as const),
  ),
});

describe('a policy that serves nothing', () => {
  test('names each replica, its last error in short, and what to do', () => {
    assert.equal(
      whyNothingServes(view(null, ['unknown', 'load: no such file'], ['away', null])),
      'no replica serves: http://0 is unknown (load: no such file), http://1 is away; publish a version that loads',
    );
    const long = whyNothingServes(view(null, ['unknown', 'x'.repeat(500)])) ?? '';
    assert.ok(long.includes(`${'x'.repeat(160)} …`) && !long.includes('x'.repeat(161)));
  });

  test('is given an earlier version again, if there is one', () => {
    const why = whyNothingServes(view(5, ['unknown', 'probe']));
    assert.match(why ?? '', /version 5 is tried again; or publish one that loads$/);
  });

  test('that only a trainer has is given again by nobody else', () => {
    const lost = view(5, ['unknown', 'half loaded']);
    const remedy = /; attach files of version 5, publish a version, or begin the next transfer$/;
    const sent = { kind: 'transfer' } as const;
    assert.match(whyNothingServes({ ...lost, weights: { 5: sent } }) ?? '', remedy);
    const adapter = { 5: { kind: 'lora', base: 4 }, 4: sent } as const;
    assert.match(whyNothingServes({ ...lost, weights: adapter }) ?? '', remedy);
    const published = {
      weights: sent,
      cache: 'reset',
      probe: null,
      pause_limit: '10m',
      files: null,
      lora: null,
      holder: null,
      take_over: false,
    } as const;
    const record = { ...firstRecord(['http://0']), version: 5, weights: { 5: published } };
    const half = withReplica(record, { replica: 'http://0', state: 'unknown' });
    assert.match(whyNothingServes(viewOf(half)) ?? '', remedy);
  });

  test('names the trainer that has the engines, which may be gone', () => {
    const holder = { name: 'grpo', incarnation: 'one' };
    const open = { version: 6, holder, paused_until: Date.UTC(2026, 0, 1, 9, 10) };
    const held = view(5, ['updating', null]);
    const whose =
      /is updating; grpo \(incarnation one\) has the engines for version 6, at most until 09:10:00 UTC: `finish`, `abandon` or its next `begin` ends that$/;
    assert.match(whyNothingServes({ ...held, ticket: open }) ?? '', whose);
    const ticket = { ...open, nonce: 'n', stall_limit: '1m', engines: [] } as unknown as Ticket;
    const record = {
      ...firstRecord(['http://0']),
      version: 5,
      transfers: { open: ticket, past: [] },
    };
    const updating = withReplica(record, {
      replica: 'http://0',
      state: 'updating',
      paused_until: 1,
    });
    assert.match(whyNothingServes(viewOf(updating)) ?? '', whose);
  });

  test('needs nothing while a replica loads', () => {
    const why = whyNothingServes(view(null, ['updating', null], ['unknown', 'load']));
    assert.equal(why, 'no replica serves: http://0 is updating, http://1 is unknown (load)');
  });

  test('is none as soon as one replica serves', () => {
    assert.equal(whyNothingServes(view(5, ['current', null], ['unknown', 'load'])), null);
  });

  test('with many replicas names only some', () => {
    const many = Array.from({ length: 9 }, (): [ReplicaState, null] => ['away', null]);
    assert.match(whyNothingServes(view(null, ...many)) ?? '', /http:\/\/3 is away and 5 more; /);
  });
});
