/** Keys of the gateway: checked by any worker, valid for one life, forged by nobody. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { addressIn, keyIn, keyOf } from '../../src/gateway/request/key.js';

const SECRET = 'a secret of this deployment';
const ADDRESS = { rollout_id: 'step-17/3-0', life: 2, writer: 'w-1' };
const KEY = keyOf(ADDRESS, SECRET);

const address = fc.record(
  {
    rollout_id: fc.string({ unit: 'grapheme', minLength: 1, maxLength: 60 }),
    life: fc.integer({ min: 1, max: 1000 }),
    writer: fc.string({ minLength: 1, maxLength: 40 }),
  },
  { noNullPrototype: true },
);

describe('a key', () => {
  test('is read back by whoever has the secret, and needs no escape anywhere', () => {
    fc.assert(
      fc.property(address, (one) => {
        const key = keyOf(one, SECRET);
        assert.match(key, /^[A-Za-z0-9._-]+$/);
        assert.deepEqual(addressIn(key, SECRET), one);
        assert.equal(addressIn(key, `${SECRET}.`), null);
      }),
    );
  });

  test('differs for each rollout, life and writer', () => {
    fc.assert(
      fc.property(address, address, (one, other) => {
        const areSame = JSON.stringify(one) === JSON.stringify(other);
        assert.equal(keyOf(one, SECRET) === keyOf(other, SECRET), areSame);
      }),
    );
  });

  test('is none after any change of it', () => {
    const change = fc.record({
      at: fc.nat(KEY.length),
      cut: fc.nat(2),
      put: fc.constantFrom(
        'A',
        'B',
        'x',
        'z',
        '0',
        '1',
        '.',
        '_',
        '-',
        '=',
        ' ',
        '/',
        '\0',
        'é',
        '',
      ),
    });
    fc.assert(
      fc.property(change, ({ at, cut, put }) => {
        const changed = KEY.slice(0, at) + put + KEY.slice(at + cut);
        fc.pre(changed !== KEY);
        assert.equal(addressIn(changed, SECRET), null);
      }),
      { numRuns: 2000 },
    );
    for (const text of [
      '',
      '.',
      '....',
      `${KEY}.`,
      KEY.slice(0, -1),
      `dr2${KEY.slice(3)}`,
      'x'.repeat(1e6),
    ])
      assert.equal(addressIn(text, SECRET), null, text.slice(0, 80));
  });
});

describe('a request', () => {
  test('has its key in a header or in its path, whose rest is the path', () => {
    const cases: [string, Record<string, string>, string | null, string][] = [
      ['/v1/models', { authorization: `Bearer ${KEY}` }, KEY, '/v1/models'],
      ['/v1/models', { authorization: `bearer   ${KEY}` }, KEY, '/v1/models'],
      ['/v1/messages', { 'x-api-key': KEY }, KEY, '/v1/messages'],
      [`/k/${KEY}/v1/models?x=1`, { 'x-api-key': 'other' }, KEY, '/v1/models?x=1'],
      [`/ng-rollout/${KEY}/v1/responses`, {}, KEY, '/v1/responses'],
      [`/ng-rollout/${KEY}-a2/v1/responses`, {}, KEY, '/v1/responses'],
      [`/ng-rollout/${KEY}/training-token-capture/v1/models`, {}, KEY, '/v1/models'],
      [`/ng-rollout/${KEY}-a12/training-token-capture/v1/models?x=1`, {}, KEY, '/v1/models?x=1'],
      [`/ng-rollout/${KEY}/training-token-captures/v1`, {}, KEY, '/training-token-captures/v1'],
      [`/k/${KEY}-a2/training-token-capture/v1`, {}, `${KEY}-a2`, '/training-token-capture/v1'],
      [`/k/${KEY}`, {}, KEY, '/'],
      ['/v1/models', { authorization: `Basic ${KEY}` }, null, '/v1/models'],
      ['/v1/models', { 'x-api-key': ' ' }, null, '/v1/models'],
      ['/k//v1/models', {}, null, '/k//v1/models'],
    ];
    for (const [path, headers, key, rest] of cases) {
      const of_gym = path.startsWith('/ng-rollout/');
      assert.deepEqual(keyIn(path, headers), { key, path: rest, of_gym }, path);
    }
  });

  test('has the attempt of NeMo Gym behind its key, however that ends', () => {
    fc.assert(
      fc.property(address, fc.option(fc.nat(1000), { nil: null }), (one, attempt) => {
        const key = keyOf(one, SECRET);
        const id = attempt === null ? key : `${key}-a${attempt}`;
        assert.equal(keyIn(`/ng-rollout/${id}/v1/responses`, {}).key, key);
      }),
    );
    // A signature may end like an attempt.
    const key = `dr1.YQ.1.Yg.${'x'.repeat(19)}-a1`;
    assert.equal(keyIn(`/ng-rollout/${key}/v1/responses`, {}).key, key);
    assert.equal(keyIn(`/ng-rollout/${key}-a3/v1/responses`, {}).key, key);
  });
});
