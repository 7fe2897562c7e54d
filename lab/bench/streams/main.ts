import { bias } from './bias.js';
import { cost } from './cost.js';
import { kept } from './kept.js';
import { many } from './many.js';
import { pacing } from './pacing.js';
import { share } from './share.js';

/**
 * `node --import tsx lab/bench/streams/main.ts bias|pacing|many|kept|cost|share [N]`, after `npm run build`: what a stream
 * delivers and what it costs. N is the number of groups; of `pacing` the seconds, of `share` the steps of each
 * measurement; of `cost` the number of rounds.
 */
const [what = '', n] = process.argv.slice(2);
const parts: Record<string, () => Promise<void>> = {
  bias: () => bias({ groups: Number(n ?? 1000), seed: 7 }),
  pacing: () => pacing({ for_s: Number(n ?? 120) }),
  many: () => many({ groups: Number(n ?? 10_000) }),
  kept: () => kept({ groups: Number(n ?? 100_000) }),
  cost: () => cost({ rounds: Number(n ?? 3) }),
  share: () => share({ steps: Number(n ?? 2) }),
};
const part = parts[what];
if (part === undefined)
  throw new Error(
    `expected ${Object.keys(parts).join(', ')}, got ${what === '' ? 'nothing' : what}`,
  );
await part();
