/** Turns whose stream a proxy meddles with: the journal has no token but where it was sampled. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { startSimulator } from '../../simulator/server.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { meddledTurn } from '../fakes/meddled-turn.js';
import { startMeddlingProxy } from '../servers/meddling-proxy.js';

const simulator = await startSimulator({
  settings: { seed: 1, model: 'tiny', scale_out: true, tokens_per_second: 200 },
  port: 0,
});
const proxy = await startMeddlingProxy(`${simulator.url}/v1`);
const services = (['completions', 'generate'] as const).map((wire) => ({
  wire,
  service: createVllmService({
    base_url: proxy.base_url,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
    wire,
  }),
}));
after(async () => {
  for (const { service } of services) await service.close();
  await proxy.close();
  await simulator.close();
});

for (const { wire, service } of services)
  describe(`a turn on ${wire}`, () => {
    for (const how of ['repeats', 'loses', 'delays'] as const)
      for (const cut of [null, 6])
        test(`whose proxy ${how} an event${cut === null ? '' : ', then cuts'} has the tokens and logprobs that the engine sampled`, async (t) => {
          const turn = { service, proxy, model: 'tiny', prompt_ids: [42, 71, 78], tokens: 60 };
          for (const at of [0, 2, 4]) {
            const { requests } = await meddledTurn(t, {
              ...turn,
              meddling: { how, at, cut },
            });
            assert.equal(requests, 2, `event ${at}`);
          }
        });
  });
