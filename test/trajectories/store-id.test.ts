import assert from 'node:assert/strict';
import { test } from 'node:test';
import { findStoreId } from '../../src/trajectories/store-id.js';
import { onEachStore } from '../fakes/stores.js';
import { faultOf } from '../fakes/temporary-store.js';

onEachStore((open) => {
  test('a store has one id, whoever asks first and however many ask at once', async (t) => {
    const { store, elsewhere } = await open(t);
    assert.equal(await findStoreId(store.facts), null, 'looking makes none');
    const asked = [store, elsewhere(), elsewhere(), elsewhere()].map((one) => one.storeId());
    const [id, ...others] = await Promise.all(asked);
    assert.match(id ?? '', /^[0-9a-f]{12}$/);
    assert.deepEqual([...new Set(others)], [id]);
    assert.equal(await elsewhere().storeId(), id);
    assert.equal(await findStoreId(elsewhere().facts), id);
  });

  test('two stores have different ids', async (t) => {
    const [one, other] = [await open(t), await open(t)];
    assert.notEqual(await one.store.storeId(), await other.store.storeId());
  });

  test('an id that nobody here wrote is a fault of the store that says what is there', async (t) => {
    const { store } = await open(t);
    await store.facts.put({ series: ['_store'], n: 0, text: '{"id":1}' });
    await assert.rejects(store.storeId(), faultOf('StoreFault', '_store/0', '{\\"id\\":1}'));
  });
});
