/** Streams whose events are repeated, lost or delayed on their way, by a proxy before the simulator. */
import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import fc from 'fast-check';
import { startSimulator } from '../../simulator/server.js';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { Miscount } from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import { Fault } from '../../src/model/faults.js';
import { startMeddlingProxy, tokensSent, type Meddling } from '../servers/meddling-proxy.js';
import { collector, REQUEST, untilAborted } from './fake-vllm.js';

const TOKENS = 40;

const simulator = await startSimulator({
  settings: {
    seed: 1,
    model: 'tiny',
    scale_out: true,
    ms_to_first_token: 1,
    tokens_per_second: 200,
  },
  port: 0,
});
const proxy = await startMeddlingProxy(`${simulator.url}/v1`);
const services: GenerationService[] = [];
after(async () => {
  for (const service of services) await service.close();
  await proxy.close();
  await simulator.close();
});

for (const wire of ['completions', 'generate'] as const) {
  const service = createVllmService({
    base_url: proxy.base_url,
    api_key: null,
    first_token_timeout_ms: 10_000,
    idle_timeout_ms: 10_000,
    wire,
  });
  services.push(service);
  const meet = async (meddling: Meddling | null, top_logprobs: number) => {
    proxy.next.splice(0, Infinity, ...(meddling === null ? [] : [meddling]));
    const { got, onDelta } = collector();
    const request = {
      ...REQUEST,
      prompt_ids: [42, 71, 78],
      max_tokens: TOKENS,
      ignore_eos: true,
      repetition_penalty: 1,
      presence_penalty: 0,
      frequency_penalty: 0,
      stop_strings: [],
      stop_token_ids: [],
      top_logprobs,
    };
    const error = await service.generate(request, { signal: untilAborted(), onDelta }).then(
      () => null,
      (thrown: unknown) => thrown,
    );
    return {
      error,
      got: got.token_ids,
      sent: tokensSent(proxy.streams.at(-1) ?? []).map(([id]) => id),
    };
  };

  describe(`on ${wire}, an event that is repeated, lost or late`, () => {
    test('is noticed at once: what is handed on is where it was sampled', async () => {
      const whole = await meet(null, 0);
      assert.deepEqual([whole.error, whole.got.length], [null, TOKENS]);
      const meddling = fc.record({
        how: fc.constantFrom('repeats', 'loses', 'delays'),
        at: fc.integer({ min: 0, max: 6 }),
        // The reset may be anywhere behind it.
        cut: fc.option(fc.integer({ min: 2, max: 20 })),
      });
      await fc.assert(
        fc.asyncProperty(meddling, fc.constantFrom(0, 2), async (how, top_logprobs) => {
          const { error, got, sent } = await meet(how, top_logprobs);
          assert.deepEqual(got, sent.slice(0, got.length));
          if (error === null) assert.equal(got.length, TOKENS);
          else assert.ok(error instanceof Fault);
        }),
        { numRuns: 25 },
      );
    });

    for (const [what, how] of [
      ['twice', 'repeats'],
      ['never', 'loses'],
      ['behind the next one', 'delays'],
    ] as const)
      test(`that comes ${what} is a miscount, which names both counts`, async () => {
        const { error, got } = await meet({ how, at: 1, cut: null }, 0);
        assert.ok(error instanceof Miscount, String(error));
        assert.match(error.message, /expected usage\.completion_tokens \d+ .*, got \d+/);
        assert.ok(got.length < TOKENS);
      });
  });
}
