import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { meddledTurn } from '../fakes/meddled-turn.js';
import { startMeddlingProxy, type MeddlingProxy } from '../servers/meddling-proxy.js';
import { baseUrl, servedModel, suite, WITHOUT_ENGINE } from './engine.js';
import { LOGPROB_TOLERANCE, promptOf } from './play.js';

const TOKENS = 100;

suite('a turn of a real engine whose events a proxy repeats, loses or delays', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let proxy: MeddlingProxy;
    let services: Record<'completions' | 'generate', GenerationService>;
    let model: string;

    before(async () => {
      proxy = await startMeddlingProxy(baseUrl());
      const open = (wire: 'completions' | 'generate'): GenerationService =>
        createVllmService({
          base_url: proxy.base_url,
          api_key: null,
          first_token_timeout_ms: 120_000,
          idle_timeout_ms: 60_000,
          wire,
        });
      services = { completions: open('completions'), generate: open('generate') };
      model = await servedModel(services.completions);
    });
    after(async () => {
      for (const service of Object.values(services)) await service.close();
      await proxy.close();
    });

    for (const wire of ['completions', 'generate'] as const)
      for (const how of ['repeats', 'loses', 'delays'] as const)
        test(`on ${wire}: ${how}; cut behind it or not, each logprob is the engine's own of that id in its place`, async (t) => {
          const service = services[wire];
          let furthest = 0;
          for (const [seed, { at, cut }] of [
            { at: 0, cut: null },
            { at: 20, cut: null },
            { at: 40, cut: null },
            { at: 20, cut: 80 },
            { at: 60, cut: 70 },
            // The cut comes first.
            { at: 60, cut: 30 },
          ].entries()) {
            const prompt_ids = promptOf(seed);
            const { token_ids, logprobs, requests } = await meddledTurn(t, {
              service,
              proxy,
              meddling: { how, at, cut },
              model,
              prompt_ids,
              tokens: TOKENS,
            });
            assert.equal(requests, 2);
            const said = await service.promptLogprobs(
              { model, prompt_ids: [...prompt_ids, ...token_ids] },
              AbortSignal.timeout(60_000),
            );
            const own = said.slice(prompt_ids.length - 1);
            for (const [i, logprob] of logprobs.entries())
              furthest = Math.max(furthest, Math.abs(logprob - own[i]!));
          }
          assert.ok(furthest <= LOGPROB_TOLERANCE, `${furthest} nats off`);
        });
  },
});
