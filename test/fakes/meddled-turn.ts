import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { describeError } from '../../src/platform/errors.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { tokensSent, type Meddling, type MeddlingProxy } from '../servers/meddling-proxy.js';
import { AT, activityBench } from './activity-bench.js';
import { GENERATION } from './journal-lines.js';
import { REF } from './temporary-store.js';

interface MeddledTurn {
  /** Through the proxy. */
  service: GenerationService;
  proxy: MeddlingProxy;
  meddling: Meddling;
  model: string;
  prompt_ids: number[];
  tokens: number;
}

/**
 * A turn of that many tokens, whose first stream is meddled with, until it is whole. Each of its tokens must be the one
 * that the engine itself sampled there, with its logprob.
 */
export async function meddledTurn(
  t: Pick<TestContext, 'after'>,
  { service, proxy, meddling, model, prompt_ids, tokens }: MeddledTurn,
): Promise<{ token_ids: number[]; logprobs: number[]; requests: number }> {
  const bench = await activityBench(t, { replicas: [service] });
  const generation = { ...GENERATION, max_new_tokens: tokens, ignore_eos: true };
  await bench.started({
    settings: { model, max_seq_len: 512, generation },
    prompt: [{ role: 'user', content: 'go', token_ids: prompt_ids }],
  });
  proxy.next.splice(0, Infinity, meddling);
  const before = proxy.streams.length;
  for (let failures = 0; ; failures++) {
    const { error } = await bench.run('generateTurn', { input: AT });
    if (error === undefined) break;
    assert.ok(failures < 3, describeError(error));
  }
  const requests = proxy.streams.slice(before).map(tokensSent);
  const { token_ids, logprobs } = openAnswer(await bench.elsewhere().readTrajectory(REF));
  assert.equal(token_ids.length, tokens);
  const last = requests.at(-1) ?? [];
  const [first = []] = requests;
  const inherited = first.slice(0, tokens - last.length);
  assert.deepEqual(
    token_ids.map((id, i) => [id, logprobs[i]]),
    [...inherited, ...last],
  );
  return { token_ids, logprobs, requests: requests.length };
}
