export type ContenderName = 'durable' | 'bare observations' | 'empty' | 'bare';

/** What is measured. Each scenario has its own processes; its contenders take turns, round after round. */
export interface Scenario {
  name: string;
  rollouts: number;
  turn_slice: '0s' | '2s';
  /** The simulator's duration of a turn; 0: it answers at once. */
  turn_ms: 0 | 3000;
  /** In the order of each round. */
  contenders: readonly ContenderName[];
}

export const TURNS = 10;

/** The default. */
export const ROUNDS = 3;

const WITHOUT_PACING = { turn_ms: 0, contenders: ['durable', 'empty', 'bare'] } as const;

export const SCENARIOS: readonly Scenario[] = [
  { name: '64 at once, slice 2s', rollouts: 64, turn_slice: '2s', ...WITHOUT_PACING },
  { name: '64 at once, slice 0s', rollouts: 64, turn_slice: '0s', ...WITHOUT_PACING },
  { name: '512 at once, slice 2s', rollouts: 512, turn_slice: '2s', ...WITHOUT_PACING },
  { name: '512 at once, slice 0s', rollouts: 512, turn_slice: '0s', ...WITHOUT_PACING },
  {
    ...{ name: '64 with turns of 3 s', rollouts: 64, turn_slice: '2s' },
    ...WITHOUT_PACING,
    turn_ms: 3000,
  },
  {
    ...{ name: '128 with observations', rollouts: 128, turn_slice: '2s', turn_ms: 0 },
    contenders: ['durable', 'bare observations'],
  },
];

/**
 * Played before the measurement, since a worker lives long: compiled code, open connections. With fewer batches, V8 still
 * compiles.
 */
export const WARM_UP = { rollouts: 64, batches: 12 };

/** Sizes of batches; each is played in slices of each of the sizes below. */
export const SLICED = { rollouts: 512, large: 2048, sizes: [64, 128, 256, 300, 512] };

/** Settings of the simulator. After its thinking, an answer has some 25 tokens of action and end. */
export function simulatorSettings({ turn_ms }: Scenario) {
  const common = { skill: 0, max_num_seqs: 1024, max_model_len: 8192 };
  return turn_ms === 0
    ? { ...common, thinking_tokens: 8 }
    : { ...common, thinking_tokens: 60, tokens_per_second: 28 };
}

/** The batch that every contender plays: the same boards and seeds, so the same games. */
export const GENERATION = { max_new_tokens: 512, seed: 17 } as const;
export const MAX_SEQ_LEN = 8192;
