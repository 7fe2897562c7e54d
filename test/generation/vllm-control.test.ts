import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { assertFault, fakeVllm, reply, untilAborted } from './fake-vllm.js';

const WEIGHTS = 'GET /weight_info';

describe('the weights of a server', () => {
  test('have the name that it gives', async (t) => {
    const { service } = await fakeVllm(t, { [WEIGHTS]: reply(200, '{"weight_version":"17"}') });
    assert.equal(await service.weightVersion(untilAborted()), '17');
  });

  test('have none where it has no such route, and it is asked once', async (t) => {
    for (const status of [403, 404, 405, 501]) {
      const { service, exchanges } = await fakeVllm(t, { [WEIGHTS]: reply(status, '') });
      for (let i = 0; i < 3; i++) assert.equal(await service.weightVersion(untilAborted()), null);
      assert.equal(exchanges.length, 1);
    }
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

test('whoever asks for a pause while a question is on its way shares the next one', async (t) => {
  const answers: ((is_paused: boolean) => void)[] = [];
  const { service, exchanges } = await fakeVllm(t, {
    'GET /is_paused': (exchange) => {
      answers.push((is_paused) => {
        void reply(200, JSON.stringify({ is_paused }))(exchange);
      });
    },
  });
  const answer = async (is_paused: boolean): Promise<void> => {
    while (answers.length === 0) await sleep(5);
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
