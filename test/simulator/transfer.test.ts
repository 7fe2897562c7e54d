/** The simulator while a trainer sends it weights, with the broken middle states of a real engine. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { eventually } from '../../lab/bed/waiting.js';
import { call, callJson, simulator, sleep } from './client.js';

const hangs = (url: string): Promise<unknown> =>
  eventually('an update that hangs', async () => {
    const { faults } = await callJson<{ faults: { hits: number }[] }>(`${url}/simulator/faults`);
    return faults[0]?.hits === 1;
  });

const SETTINGS = { dev_mode: true };
const WEIGHTS = { name: '18', skill: 2, seed: 5 };
const part = (of: number, parts = 2) => ({ update_info: { weights: WEIGHTS, part: of, parts } });

async function engine(settings: object = {}) {
  const { url } = await simulator({ ...SETTINGS, ...settings });
  const post = (path: string, body: object = {}) => call(`${url}${path}`, { method: 'POST', body });
  const label = async (): Promise<string> =>
    (await callJson<{ weight_version: string }>(`${url}/weight_info`)).weight_version;
  return { url, post, label };
}

describe('a simulator that is sent weights', () => {
  test('takes them in parts between the start and the end of an update', async () => {
    const { url, post } = await engine();
    assert.deepEqual(await callJson(`${url}/get_world_size`), { world_size: 1 });
    for (const [path, body] of [
      ['/init_weight_transfer_engine', { init_info: {} }],
      ['/start_weight_update', {}],
      ['/update_weights', part(0)],
      ['/update_weights', part(1)],
      ['/finish_weight_update', {}],
    ] as const)
      assert.equal((await post(path, body)).status, 200, path);
  });

  test('refuses a second start, a part without a start, and files during an update', async () => {
    const { post } = await engine();
    assert.equal((await post('/update_weights', part(0))).status, 500);
    await post('/start_weight_update');
    const again = await post('/start_weight_update');
    assert.deepEqual([again.status, /already active/.test(again.text)], [500, true]);
    const load = { method: 'reload_weights', kwargs: { weights_path: '/dev/null' } };
    assert.equal((await post('/collective_rpc', load)).status, 500);
    assert.equal((await post('/finish_weight_update')).status, 200);
    assert.equal((await post('/finish_weight_update')).status, 500);
  });

  test('takes any label at the end, though no weights came', async () => {
    const { post, label } = await engine();
    await post('/start_weight_update');
    await post('/finish_weight_update', { weight_version: 'any' });
    assert.equal(await label(), 'any');
  });

  test('has a label for each process behind its URL', async () => {
    const { post, label } = await engine({ front_ends: 2 });
    await post('/update_weight_version', { new_version: '18' });
    const told = new Set([await label(), await label(), await label()]);
    assert.deepEqual(told, new Set(['18', 'default']));
  });

  test('answers only /health while it waits for its sender', async () => {
    const { url, post } = await engine();
    await call(`${url}/simulator/faults`, { method: 'POST', body: { fault: 'hang' } });
    await post('/start_weight_update');
    const update = post('/update_weights', part(0));
    await hangs(url);
    const asked = call(`${url}/is_paused`);
    const first = await Promise.race([asked.then(() => 'paused'), sleep(300).then(() => 'late')]);
    assert.equal(first, 'late');
    assert.equal((await call(`${url}/health`)).status, 200);
    await call(`${url}/simulator/faults`, { method: 'DELETE' });
    assert.equal((await update).status, 500);
    assert.equal((await asked).status, 200);
  });

  test('takes no weights after an update that broke, before another one has begun and ended', async () => {
    const { url, post } = await engine();
    await call(`${url}/simulator/faults`, { method: 'POST', body: { fault: 'hang' } });
    await post('/start_weight_update');
    const update = post('/update_weights', part(0));
    await hangs(url);
    await call(`${url}/simulator/faults`, { method: 'DELETE' });
    assert.equal((await update).status, 500);
    assert.equal((await post('/finish_weight_update')).status, 500);
    assert.equal((await post('/start_weight_update')).status, 200);
    const torn = await post('/update_weights', part(0));
    assert.deepEqual([torn.status, /no attribute 'weight_loader'/.test(torn.text)], [500, true]);
    assert.equal((await post('/finish_weight_update')).status, 200);
    assert.equal((await post('/start_weight_update')).status, 200);
    assert.equal((await post('/update_weights', part(0))).status, 200);
  });
});
