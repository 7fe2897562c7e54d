import assert from 'node:assert/strict';
import { describe, mock, test, type TestContext } from 'node:test';
import { pino } from 'pino';
import { createPolicyRecords } from '../../src/activities/policy/policy-records.js';
import type { PolicyRecord, ReplicaChange } from '../../src/model/policy/record.js';
import { firstRecord, withReplica } from '../../src/model/policy/record.js';
import { keepPolicies } from '../../src/workers/policies.js';
import { temporaryStore } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';

const URL = 'http://a/v1';
const OTHER = 'http://b/v1';

const published = (): PolicyRecord => ({ ...firstRecord([URL, OTHER]), version: 1, target: 1 });

/** A worker's look at the record, as often as `look` is called. */
async function kept(t: TestContext) {
  const { store } = await temporaryStore(t);
  const records = createPolicyRecords('default', { facts: store.facts });
  const world = { isRunning: true, woken: 0, looked: 0 };
  const latest = records.latest;
  const counted = {
    ...records,
    latest: async () => {
      const record = await latest();
      world.looked += 1;
      return record;
    },
  };
  mock.timers.enable({ apis: ['setInterval', 'Date'], now: Date.now() });
  const end = keepPolicies(
    {
      policies: new Map([
        ['default', { records: counted, urls: [URL, OTHER], controls: () => [] }],
      ]),
      pools: new Map(),
    },
    {
      log: pino({ level: 'silent' }),
      nowMs: () => Date.now(),
      workflows: {
        sayPhase: () => Promise.resolve(),
        isRunning: () => Promise.resolve(world.isRunning),
        wake: () => Promise.resolve(void (world.woken += 1)),
      },
    },
  );
  t.after(() => {
    end();
    mock.timers.reset();
  });
  /** Looks so many times, after which it has woken so many workflows. */
  const looks = async (times: number, woken: number): Promise<void> => {
    for (let i = 0; i < times; i++) {
      const { looked } = world;
      mock.timers.tick(3000);
      await eventually('a look', () => world.looked > looked);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    await eventually(`${woken} woken workflows`, () => world.woken >= woken);
    assert.equal(world.woken, woken);
  };
  const pass = (minutes: number): void => {
    mock.timers.setTime(Date.now() + minutes * 60_000);
  };
  const set = (change: ReplicaChange) =>
    records.change((now) => withReplica(now ?? published(), { replica: URL, ...change }));
  return { world, records, looks, pass, set };
}

describe('a worker that looks after a policy', () => {
  test('has nothing to do where nothing was published, or all is well', async (t) => {
    const { looks, set } = await kept(t);
    await looks(2, 0);
    await set({ state: 'current', version: 1 });
    await looks(2, 0);
  });

  test('starts the workflow of a replica that has none, as often as it is gone', async (t) => {
    const { world, looks, set } = await kept(t);
    await set({ state: 'updating', paused_until: Date.now() + 600_000 });
    world.isRunning = false;
    await looks(1, 1);
    world.isRunning = true;
    await looks(2, 1);
    // A database that was lost, with nothing in the record that has changed since.
    world.isRunning = false;
    await looks(1, 2);
  });

  test('tells a workflow that runs of a pause that is over, once', async (t) => {
    const { looks, set } = await kept(t);
    await set({ state: 'updating', paused_until: Date.now() + 600_000 });
    await looks(2, 0);
    await set({ state: 'updating', paused_until: Date.now() - 1 });
    await looks(3, 1);
  });

  test('tells a workflow that runs of an unknown replica that nobody restores for minutes, once', async (t) => {
    const { looks, pass, set } = await kept(t);
    await set({ state: 'unknown', fault: 'its wake was lost with the server' });
    await looks(2, 0);
    pass(2.5);
    await looks(1, 0);
    pass(1);
    await looks(3, 1);
  });

  test('leaves a workflow alone that tries to restore a replica every two minutes', async (t) => {
    const { looks, pass, set } = await kept(t);
    for (let tries = 0; tries < 3; tries++) {
      await set({ state: 'updating', paused_until: Date.now() + 600_000 });
      await set({ state: 'unknown' });
      await looks(1, 0);
      pass(2);
      await looks(1, 0);
    }
  });

  test('does not disturb a long load because another replica is unknown', async (t) => {
    const { looks, pass, records, set } = await kept(t);
    await set({ state: 'unknown' });
    const paused_until = Date.now() + 600_000;
    await records.change((now) =>
      withReplica(now!, { replica: OTHER, state: 'updating', paused_until }),
    );
    await looks(1, 0);
    pass(9);
    await looks(2, 0);
  });

  test('tells of a replica that has joined', async (t) => {
    const { looks, records } = await kept(t);
    await records.change(() => firstRecord(['http://another/v1']));
    await looks(1, 1);
  });
});
