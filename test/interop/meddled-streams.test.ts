import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { meddledTurn } from '../fakes/meddled-turn.js';
import { startMeddlingProxy, type MeddlingProxy } from '../servers/meddling-proxy.js';
import { baseUrl, KIND, openEngine, servedModel, suite, WIRES, WITHOUT_ENGINE } from './engine.js';
import { LOGPROB_TOLERANCE, promptOf } from './play.js';

const TOKENS = 100;

suite('a turn of a real engine whose events a proxy repeats, loses or delays', {
  skip: WITHOUT_ENGINE,
  timeout: 600_000,
  tests: () => {
    let proxy: MeddlingProxy;
    const services = new Map<string, GenerationService>();
    let model: string;

    before(async () => {
      proxy = await startMeddlingProxy(baseUrl());
      for (const wire of WIRES) services.set(wire, openEngine(proxy.base_url, wire));
      model = await servedModel(services.get('completions')!);
    });
    after(async () => {
      for (const service of services.values()) await service.close();
      await proxy.close();
    });

    for (const wire of WIRES)
      for (const how of ['repeats', 'loses', 'delays'] as const)
        test(`on ${wire}: ${how}; cut behind it or not, each logprob is the engine's own of that id in its place`, async (t) => {
          const service = services.get(wire)!;
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
            // Events of SGLang may have all tokens so far: the next one makes up for what is lost.
            assert.ok(requests === 2 || (KIND === 'sglang' && cut === null), `${requests}`);
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
