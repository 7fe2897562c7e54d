import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { assertFault, fakeVllm, replay, reply, untilAborted } from './fake-vllm.js';
import { eventually } from '../../lab/bed/waiting.js';

const WEIGHTS = 'GET /weight_info';

describe('the weights of a server', () => {
  test('have the name that it gives', async (t) => {
    const { service } = await fakeVllm(t, { [WEIGHTS]: reply(200, '{"weight_version":"17"}') });
    assert.equal(await service.weightVersion(untilAborted()), '17');
  });

  for (const status of [400, 401, 403, 404, 405, 422, 501]) {
    test(`have none where it answers ${status}: that is no fault, and is asked again after half a minute`, async (t) => {
      let now = 0;
      let answer = reply(status, '{"detail":"Not Found"}');
      const { service, exchanges } = await fakeVllm(t, {
        [WEIGHTS]: (exchange) => answer(exchange),
        options: { now: () => now },
      });
      for (let i = 0; i < 3; i++) assert.equal(await service.weightVersion(untilAborted()), null);
      assert.equal(exchanges.length, 1);
      answer = reply(200, '{"weight_version":"17"}');
      now += 29_000;
      assert.equal(await service.weightVersion(untilAborted()), null);
      now += 2000;
      assert.equal(await service.weightVersion(untilAborted()), '17');
    });
  }

  test('are asked for again once the server is described: another one may be there', async (t) => {
    let answer = reply(404, '');
    const { service } = await fakeVllm(t, {
      [WEIGHTS]: (exchange) => answer(exchange),
      'GET /health': reply(200, ''),
      'GET /v1/models': replay('102'),
      'GET /version': replay('105'),
    });
    assert.equal(await service.weightVersion(untilAborted()), null);
    answer = reply(200, '{"weight_version":"17"}');
    await service.describe(untilAborted());
    assert.equal(await service.weightVersion(untilAborted()), '17');
  });

  test('are one question for all streams that ask while one is on its way', async (t) => {
    const { service, exchanges } = await fakeVllm(t, {
      [WEIGHTS]: reply(200, '{"weight_version":"17"}'),
    });
    const asking = Array.from({ length: 50 }, () => service.weightVersion(untilAborted()));
    assert.deepEqual(new Set(await Promise.all(asking)), new Set(['17']));
    assert.equal(exchanges.length, 2);
  });

  test('are not taken for unnamed where it fails for a moment', async (t) => {
    for (const status of [408, 429, 500, 503]) {
      let left = 1;
      const { service, base_url } = await fakeVllm(t, {
        [WEIGHTS]: (exchange) =>
          left-- > 0
            ? reply(status, '{"error":"busy"}')(exchange)
            : reply(200, '{"weight_version":"17"}')(exchange),
      });
      await assertFault(service.weightVersion(untilAborted()), {
        type: 'GenerationUnavailable',
        message: new RegExp(`GET /weight_info: ${status} busy`),
        at: base_url,
      });
      assert.equal(await service.weightVersion(untilAborted()), '17');
    }
  });
});

describe('an engine that is asleep', () => {
  const says = (is_sleeping: boolean) => reply(200, JSON.stringify({ is_sleeping }));
  test('counts as paused, whatever it says about a pause', async (t) => {
    for (const paused of [replay('107'), replay('194'), reply(500, '')]) {
      const { service } = await fakeVllm(t, {
        'GET /is_paused': paused,
        'GET /is_sleeping': says(true),
        'GET /metrics': reply(404, ''),
      });
      assert.deepEqual([await service.isPaused(), await service.isAsleep()], [true, true]);
    }
  });

  test('is none that is only paused, is awake, or does not tell', async (t) => {
    const paused = reply(200, '{"is_paused":true}');
    const first = await fakeVllm(t, { 'GET /is_paused': paused, 'GET /is_sleeping': says(false) });
    assert.deepEqual(
      [await first.service.isPaused(), await first.service.isAsleep()],
      [true, false],
    );
    const awake = 'vllm:engine_sleep_state{engine="0",sleep_state="awake"} 1.0\n';
    const second = await fakeVllm(t, {
      'GET /is_paused': paused,
      'GET /is_sleeping': says(true),
      'GET /metrics': reply(200, awake),
    });
    assert.deepEqual(
      [await second.service.isPaused(), await second.service.isAsleep()],
      [true, false],
    );
    for (const sleeping of [says(false), replay('162'), reply(404, ''), reply(200, '[]')]) {
      const { service } = await fakeVllm(t, {
        'GET /is_paused': replay('107'),
        'GET /is_sleeping': sleeping,
      });
      assert.deepEqual([await service.isPaused(), await service.isAsleep()], [false, false]);
    }
  });
});

test('a question about a pause that comes while one is on its way shares the next one', async (t) => {
  const answers: ((is_paused: boolean) => void)[] = [];
  const { service, exchanges } = await fakeVllm(t, {
    'GET /is_paused': (exchange) => {
      answers.push((is_paused) => {
        void reply(200, JSON.stringify({ is_paused }))(exchange);
      });
    },
  });
  const answer = async (is_paused: boolean): Promise<void> => {
    await eventually('a question', () => answers.length > 0);
    answers.shift()!(is_paused);
  };
  const first = service.isPaused();
  const later = [service.isPaused(), service.isPaused()];
  await answer(false);
  assert.equal(await first, false);
  await answer(true);
  assert.deepEqual(await Promise.all(later), [true, true]);
  assert.equal(exchanges.length, 2);
  const last = service.isPaused();
  await answer(false);
  assert.equal(await last, false);
});
