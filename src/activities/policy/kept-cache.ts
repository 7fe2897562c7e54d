import type { EngineSettings } from '../../generation/weight-control.js';
import type { CacheRule } from '../../model/policy/publish.js';
import { refused } from './policy-view.js';

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
