import type { EngineSettings } from '../../generation/weight-control.js';
import type { Weights, CacheRule } from '../../model/policy/publish.js';
import { refused } from './policy-view.js';

/** What a server must have been started with, so that weights of a kind can be brought to it. */

const REMEDIES = {
  checkpoint: 'vLLM has them with VLLM_SERVER_DEV_MODE=1',
  lora: 'vLLM has them with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True',
} as const;

export const lackOf = (
  url: string,
  { lacks, kind }: { lacks: readonly string[]; kind: Weights['kind'] },
): string => `${url} lacks ${lacks.join(', ')} (${REMEDIES[kind]})`;

/**
 * An engine holds the adapters that streams may use, and the next one. vLLM with fewer places swaps them in turns, from
 * folders that may be gone. One that does not say how many it has is not refused.
 */
export function checkPlaces(
  url: string,
  {
    keep_adapters,
    adapter_places,
  }: { keep_adapters: number } & Pick<EngineSettings, 'adapter_places'>,
): void {
  const needed = keep_adapters + 1;
  if (adapter_places === null || adapter_places >= needed) return;
  throw refused(
    `${url} has too few places for adapters (vLLM: --max-loras): expected at least ${needed}, for keep_adapters ${keep_adapters} and the next one, got ${adapter_places}`,
  );
}

/** vLLM's names for caches in numbers that need no scales. */
const PLAIN = ['auto', 'float32', 'float16', 'half', 'bfloat16'];

/** A quantised cache has scales of the weights that filled it, so it goes when they go. */
export function checkCache(
  url: string,
  { cache, cache_dtype }: { cache: CacheRule } & Pick<EngineSettings, 'cache_dtype'>,
): void {
  if (cache !== 'keep' || cache_dtype === null || PLAIN.includes(cache_dtype)) return;
  throw refused(
    `cache: expected "reset" for ${url}, whose cache is quantised (${cache_dtype}) with scales of the weights that filled it, got "keep"`,
  );
}
