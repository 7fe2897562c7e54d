import { z } from 'zod';

export const Semantics = z.enum(['standard', 'nemo-rl-sync', 'nemo-rl-async', 'nemo-rl']);
export type Semantics = z.infer<typeof Semantics>;

interface Rules {
  /** The commit of NeMo RL whose loop, graders and formats it reproduces; null: this project's own rules. */
  upstream: string | null;
  /** A reply that `max_new_tokens` cut truncates its rollout, which ends. Without it, the rollout plays on. */
  cut_truncates: boolean;
  /** A `max_rollout_turns` that is reached is flagged whatever ended the rollout, and `idx` is the row. */
  counts_places: boolean;
  /**
   * It has the rules of the lock-step loop: sums are float32; stop strings are always those of the environment's last
   * answer, if the sample has such a column, and come back in it; truncated counts as terminated; a log above its limit
   * is a fault.
   */
  in_lock_step: boolean;
}

const SEED = { upstream: '41791c7f', cut_truncates: false };
const PER_SAMPLE = { counts_places: true, in_lock_step: false };

export const RULES: Readonly<Record<Semantics, Rules>> = {
  standard: { upstream: null, cut_truncates: true, counts_places: false, in_lock_step: false },
  'nemo-rl-sync': { ...SEED, counts_places: false, in_lock_step: true },
  'nemo-rl-async': { ...SEED, ...PER_SAMPLE },
  'nemo-rl': { upstream: '7ea279ab', cut_truncates: true, ...PER_SAMPLE },
};

export const isUpstream = (semantics: Semantics): boolean => RULES[semantics].upstream !== null;
