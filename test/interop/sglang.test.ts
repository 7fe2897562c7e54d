import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type {
  GenerationRequest,
  GenerationService,
} from '../../src/generation/generation-service.js';
import { probeRequest } from '../../src/generation/logprobs-probe.js';
import type { RecordedChunk } from '../generation/captures.js';
import { capture, recordedResult } from '../generation/captures.js';
import { assertFault, collector } from '../generation/fake-vllm.js';
import { openEngine, suite, WITHOUT_SGLANG } from './engine.js';
import { LOGPROB_TOLERANCE, promptOf } from './play.js';

const MODEL = 'tiny';
const soon = (): AbortSignal => AbortSignal.timeout(60_000);

suite('a real SGLang', {
  skip: WITHOUT_SGLANG,
  timeout: 600_000,
  tests: () => {
    let service: GenerationService;
    before(() => (service = openEngine()));
    after(() => service.close());

    async function sampled(given: Partial<GenerationRequest>) {
      const { got, onDelta } = collector();
      const request = {
        ...probeRequest({ model: MODEL, temperature: 0 }),
        top_logprobs: 0,
        ...given,
      };
      const end = await service.generate(request, { signal: soon(), onDelta });
      return { ...got, end };
    }

    /** The likeliest ids behind these, at a temperature. */
    async function likeliest(
      prompt_ids: readonly number[],
      { temperature, count }: { temperature: number; count: number },
    ) {
      const tops: [number, number][] = [];
      const request = { ...probeRequest({ model: MODEL, temperature }), prompt_ids };
      await service.generate(
        { ...request, top_logprobs: count },
        { signal: soon(), onDelta: ({ top_logprobs = [] }) => tops.push(...top_logprobs.flat()) },
      );
      return tops;
    }

    test('samples greedily what a vLLM with the same model has sampled', async () => {
      const { prompt, max_tokens, raw } = capture('013');
      const { token_ids, logprobs } = recordedResult([JSON.parse(raw) as RecordedChunk]);
      const got = await sampled({ prompt_ids: prompt, max_tokens, ignore_eos: true });
      assert.ok(token_ids.length > 10, `${token_ids.length} ids`);
      assert.deepEqual(got.token_ids, token_ids);
      const apart = got.logprobs.map((logprob, i) => Math.abs(logprob - (logprobs[i] ?? Infinity)));
      assert.ok(Math.max(...apart) <= LOGPROB_TOLERANCE, `${Math.max(...apart)}`);
    });

    test('has logprobs of the distribution behind top_k and top_p', async () => {
      const [temperature, top_k] = [0.8, 3];
      for (const top_p of [1, 0.7]) {
        const prompt_ids = promptOf(3);
        const filters = { temperature, top_k, top_p, prompt_ids, max_tokens: 12, ignore_eos: true };
        const { token_ids, logprobs } = await sampled(filters);
        assert.equal(token_ids.length, 12);
        for (const [i, id] of token_ids.entries()) {
          const before = [...prompt_ids, ...token_ids.slice(0, i)];
          const tops = await likeliest(before, { temperature, count: top_k });
          assert.equal(tops.length, top_k);
          // Other than vLLM, it takes top_p of the whole distribution, and then the smaller of both.
          let sum = 0;
          const kept = tops.filter(([, logprob]) => {
            const isKept = sum < top_p;
            sum += Math.exp(logprob);
            return isKept;
          });
          const rest = kept.reduce((total, [, logprob]) => total + Math.exp(logprob), 0);
          const own = kept.find(([one]) => one === id)?.[1];
          assert.ok(own !== undefined, `${id} of ${JSON.stringify(kept)}`);
          const expected = own - Math.log(rest);
          assert.ok(
            Math.abs(expected - (logprobs[i] ?? Infinity)) <= LOGPROB_TOLERANCE,
            `token ${i}: expected ${expected}, got ${logprobs[i]}`,
          );
        }
      }
    });

    test('fills its context, and generates nothing behind a prompt that does', async () => {
      const [{ max_model_len: most } = { max_model_len: null }] = (await service.describe(soon()))
        .models;
      assert.ok(most !== null);
      for (const [length, expected] of [
        [most - 50, 50],
        [most - 5, 5],
        [most - 4, 0],
        [most, 0],
        [most + 100, 0],
      ] as const) {
        const prompt_ids = Array.from({ length }, (_, i) => 10 + (i % 400));
        const { token_ids, end } = await sampled({ prompt_ids, max_tokens: 100, ignore_eos: true });
        assert.equal(token_ids.length, expected, `behind ${length}`);
        assert.equal(end.finish_reason, 'length');
      }
    });

    test('survives ids that it does not have', async () => {
      for (const id of [600, 2 ** 31 - 1, -1])
        await assertFault(sampled({ prompt_ids: [42, id] }), {
          type: 'GenerationRejected',
          message: /prompt id 1: expected one from 0 to 599/,
          at: service.replica,
        });
      assert.equal((await sampled({ prompt_ids: [599] })).token_ids.length, 1);
    });

    test('ends at a stop token, and says at which', async () => {
      const { token_ids } = await sampled({ max_tokens: 20, ignore_eos: true });
      const stop = token_ids[10]!;
      const at = token_ids.indexOf(stop);
      const stopped = await sampled({ max_tokens: 20, stop_token_ids: [stop] });
      assert.deepEqual(stopped.token_ids, token_ids.slice(0, at + 1));
      assert.deepEqual([stopped.end.finish_reason, stopped.end.stop_reason], ['stop', stop]);
    });

    test('says the weights of each token', async () => {
      const { end, token_ids } = await sampled({ max_tokens: 5, ignore_eos: true });
      const version = (await service.weightVersion(soon())) ?? '';
      assert.deepEqual(end.spans, [{ version, start: 0, end: token_ids.length }]);
    });

    test('takes many requests of one name at once, and an abort of one leaves the others', async () => {
      const cut = new AbortController();
      const { onDelta } = collector();
      const running = service.generate(
        {
          ...probeRequest({ model: MODEL, temperature: 0 }),
          top_logprobs: 0,
          max_tokens: 400,
          ignore_eos: true,
        },
        {
          signal: cut.signal,
          onDelta: (delta) => {
            onDelta(delta);
            cut.abort(new Error('cut'));
          },
        },
      );
      const others = Array.from({ length: 8 }, () =>
        sampled({ max_tokens: 100, ignore_eos: true }),
      );
      await assert.rejects(running, /cut/);
      for (const { token_ids } of await Promise.all(others)) assert.equal(token_ids.length, 100);
    });
  },
});
