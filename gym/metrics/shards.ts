import { expandGlobs } from './glob.js';
import { reprOf } from '../../src/platform/python/repr.js';

/** What stands beside a collection's results and is named after them. */
const BESIDE = /_(?:materialized_inputs|failures|reward_profiling)\.jsonl$/;

/**
 * The shard files that `input_glob` means. A wide pattern also matches the files beside the results, which are no results: these
 * are left out unless they are named in full. Throws with upstream's text where nothing matches.
 */
export function shardsOf(
  input_glob: string,
  { cwd, report }: { cwd: string; report: (line: string) => void },
): string[] {
  const named = input_glob.split(',').map((pattern) => pattern.trim());
  const shards = expandGlobs(input_glob, cwd).filter((file) => {
    const isBeside = BESIDE.test(file) && !named.includes(file);
    if (isBeside) report(`${file} is no shard: it stands beside one`);
    return !isBeside;
  });
  if (shards.length > 0) return shards;
  throw new Error(`No shards matched input_glob=${reprOf(input_glob)}`);
}
