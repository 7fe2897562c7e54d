import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import { firstRecord } from '../../src/model/policy/record.js';
import { onEachStore } from '../fakes/stores.js';

onEachStore((open) => {
  test('a service may have any name, and no two have one record', async (t) => {
    const { store } = await open(t);
    // The last two begin with the same digits.
    const names = ['default', 'a.b', 'a:002eb', '.hidden', '-a', '../..', '默认', 'ǵb', 'Ὓ'];
    const recordsOf = (service: string) => createPolicyRecords({ facts: store.facts, service });
    for (const name of names)
      assert.notEqual(await recordsOf(name).change(() => firstRecord([`http://${name}`])), null);
    for (const name of names) {
      const { epoch, replicas = {} } = (await recordsOf(name).latest()) ?? {};
      assert.deepEqual([epoch, Object.keys(replicas)], [0, [`http://${name}`]]);
    }
  });
});
