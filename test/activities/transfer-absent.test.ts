/** Engines that are not there when a trainer begins, and a store that is not there when it ends. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Fault } from '../../src/model/faults.js';
import { controlFault } from '../fakes/controlled-engine.js';
import { A, B, fleet } from '../fakes/held-fleet.js';

describe('an engine that does not answer when a transfer begins', () => {
  for (const [how, isUp, state] of [
    ['is gone', false, 'away'],
    ['hangs', true, 'unknown'],
  ] as const)
    test(`and ${how}, serves nothing from then on, since it has the version before`, async (t) => {
      const { engines, begin, finish, entry } = await fleet(t);
      engines[1].before = (call) => {
        if (call !== 'isUp' || !isUp) throw controlFault('GenerationUnavailable');
      };
      const { ticket, engines: held } = await begin();
      assert.deepEqual(
        held.map(({ url }) => url),
        [A],
      );
      assert.equal((await entry(B)).state, state);
      engines[1].before = () => undefined;
      await finish(ticket, { sent: [0] });
      assert.deepEqual([(await entry(A)).version, (await entry(B)).state], [18, state]);
    });
});

test('one that does not answer its pause serves nothing, since it may be paused later', async (t) => {
  const { engines, begin, entry } = await fleet(t);
  engines[1].before = (call) => {
    if (call === 'pause') throw controlFault('GenerationUnavailable');
  };
  const { engines: held } = await begin({ quorum: 1 });
  assert.deepEqual(
    held.map(({ url }) => url),
    [A],
  );
  const { state, needs, fault } = await entry(B);
  assert.deepEqual([state, needs, fault], ['unknown', null, 'the engine says nothing']);
});

test('a store that is away at the end of a transfer costs no engine its weights', async (t) => {
  const { engines, bench, records, begin, finish, refusedFinish, entry } = await fleet(t);
  const { ticket } = await begin();
  let isAway = false;
  const latest: typeof records.latest = () => {
    if (!isAway) return records.latest();
    isAway = false;
    return Promise.reject(new Fault({ type: 'StoreFault', message: 'the disk is away' }));
  };
  const service = bench.dependencies.policy('default')!;
  bench.dependencies.policy = () => ({ ...service, records: { ...records, latest } });
  engines[1].before = (call) => {
    isAway = call === 'resume';
  };
  assert.match(await refusedFinish(ticket), /the disk is away/);
  engines[1].before = () => undefined;
  await finish(ticket);
  for (const url of [A, B]) {
    const { state, version } = await entry(url);
    assert.deepEqual([state, version], ['current', 18]);
  }
});
