import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { waitIn } from '../../src/activities/waits.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { says, scriptedService } from '../fakes/scripted-service.js';

describe('heartbeats', () => {
  test('come at once when what an attempt waits for changes, however rare they are', async (t) => {
    const service = scriptedService([says('x')]);
    const generate = service.generate.bind(service);
    service.generate = async (...given) => {
      await new Promise((resolve) => setTimeout(resolve, 900));
      return await generate(...given);
    };
    const bench = await activityBench(t, {
      service,
      silent_ms: 300,
      deployment: { heartbeat_timeout_ms: 600_000 },
    });
    await bench.started();
    const { heartbeats } = await bench.run('generateTurn', { input: AT });
    const waits = heartbeats.map((one) => waitIn(one)?.message ?? null);
    assert.deepEqual(waits, ['no answer yet', null]);
  });
});
