import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import type { GenerationService } from '../../src/generation/generation-service.js';
import type { GenerationSettings } from '../../src/model/generation-settings.js';
import { describeError } from '../../src/platform/errors.js';
import type { LineOf } from '../../src/model/journal.js';
import { createRandom } from '../../simulator/random.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { GENERATION } from '../fakes/journal-lines.js';
import { REF } from '../fakes/temporary-store.js';
import { cutService } from './cut-service.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';

/** Special tokens as /detokenize renders them; a stream omits them. */
export const SPECIAL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];

/** One turn that the activity plays on its own store. */
export interface Turn {
  model: string;
  prompt_ids: readonly number[];
  generation: Partial<GenerationSettings>;
}

export interface Outcome extends Pick<
  LineOf<'generation'>,
  'content' | 'finish_reason' | 'stop_reason'
> {
  token_ids: number[];
  logprobs: number[];
}

/** Retries beyond the intended cuts, because a server may close idle connections at any time. */
const MORE_ATTEMPTS = 5;

/** Plays it greedily, cut after this many tokens of each attempt, until an attempt completes. */
export async function play(
  t: Pick<TestContext, 'after'>,
  {
    service,
    turn,
    cuts = [],
  }: { service: GenerationService; turn: Turn; cuts?: readonly number[] },
): Promise<Outcome> {
  const bench = await activityBench(t, {
    replicas: [cutService(service, cuts)],
    special_tokens: SPECIAL_TOKENS,
  });
  await bench.started({
    settings: {
      model: turn.model,
      max_seq_len: 512,
      generation: { ...GENERATION, greedy: true, ...turn.generation },
    },
    prompt: [{ role: 'user', content: 'go', token_ids: [...turn.prompt_ids] }],
  });
  let failures = 0;
  for (;;) {
    const { error } = await bench.run('generateTurn', { input: AT });
    if (error === undefined) break;
    assert.equal((error as { type?: string }).type, 'GenerationUnavailable', describeError(error));
    failures += 1;
    assert.ok(failures <= cuts.length + MORE_ATTEMPTS, describeError(error));
  }
  assert.ok(failures >= cuts.length, `${failures} of ${cuts.length} cuts`);
  const read = await bench.elsewhere().readTrajectory(REF);
  const open = openAnswer(read);
  const { wasted_tokens } = read;
  assert.ok(open.generation !== null, 'the turn is not whole');
  // Stop strings are matched on this side, so tokens that the engine sent meanwhile are dropped.
  if (turn.generation.stop_strings === undefined) assert.equal(wasted_tokens, 0);
  const { content, finish_reason, stop_reason } = open.generation;
  const { token_ids, logprobs } = open;
  return { content, finish_reason, stop_reason, token_ids, logprobs };
}

/** Float32 sums in another order: the same tokens in another batch of the engine. */
export const LOGPROB_TOLERANCE = 1e-4;

export function assertSame(actual: Outcome, expected: Outcome): void {
  const { logprobs, ...rest } = actual;
  const { logprobs: wanted, ...others } = expected;
  assert.deepEqual(rest, others);
  assert.equal(logprobs.length, wanted.length);
  const apart = logprobs.map((logprob, i) => Math.abs(logprob - wanted[i]!));
  const worst = apart.reduce((a, b) => Math.max(a, b), 0);
  assert.ok(worst <= LOGPROB_TOLERANCE, `a logprob differs by ${worst}`);
}

/**
 * Prompts of 5 to 21 tokens, the same for the same seed. The last token completes a character: after a prompt that ends
 * inside one, vLLM 0.32.0 begins a stream's text with the prompt's.
 */
export function promptOf(seed: number): number[] {
  const random = createRandom(seed);
  const between = (low: number, high: number): number =>
    low + Math.floor(random() * (high - low + 1));
  return [...Array.from({ length: between(4, 20) }, () => between(10, 500)), LETTER];
}

/** The id of a letter in the tiny model; any id of printable ASCII would do. */
const LETTER = 70;

/** Runs them all, this many at a time. */
export async function atOnce<T, R>(
  items: readonly T[],
  { limit, run }: { limit: number; run: (item: T, index: number) => Promise<R> },
): Promise<R[]> {
  const results: R[] = [];
  const left = items.entries();
  const work = async (): Promise<void> => {
    for (const [i, item] of left) results[i] = await run(item, i);
  };
  await Promise.all(Array.from({ length: limit }, work));
  return results;
}
