/** A server under load closes connections that the next question finds open. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import { A, B, HOLDER, fleet } from '../fakes/held-fleet.js';

test('an engine whose first answer was lost is put to sleep like the others', async (t) => {
  const { engines, order, entry } = await fleet(t, { path: '/weights-17' });
  const examine = engines[0].examine.bind(engines[0]);
  let asked = 0;
  engines[0].examine = async (...given) => {
    asked += 1;
    if (asked === 1)
      throw new Fault({ type: 'GenerationUnavailable', message: 'other side closed' });
    return await examine(...given);
  };
  const sleep = { holder: HOLDER, level: 1 };
  await order('sleep', sleep);
  assert.equal(asked, 2);
  assert.deepEqual([(await entry(A)).state, (await entry(B)).state], ['asleep', 'asleep']);
});
