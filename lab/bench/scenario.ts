export type ContenderName =
  | 'bare'
  | 'empty'
  | 'empty, an activity a rollout'
  | 'durable, slices of 2s'
  | 'durable, slices of 10s'
  | 'durable, slices of 40s'
  | 'durable'
  | 'bare observations'
  | 'idle'
  | 'asyncio loop';

/** What is measured. Each scenario has its own processes; its contenders take turns, round after round. */
export interface Scenario {
  name: string;
  place: Place;
  rollouts: number;
  turns: number;
  /** null: the default. */
  turn_slice: '0s' | null;
  pace: Pace;
  /** In the order of each round. */
  contenders: readonly ContenderName[];
}

/** Of lab/bench/TABLES.md, where `--write` puts the scenarios with this place, those of one run together. */
export const PLACES = ['fast-turns', 'slow-turns', 'observations', 'trainers-loop'] as const;
export type Place = (typeof PLACES)[number];

/** How the simulator answers. After its thinking, an answer has some 25 tokens of action and end. */
export interface Pace {
  thinking_tokens: number;
  /** 0: it answers at once. */
  tokens_per_second: number;
  /** About, for the worker without an engine. */
  turn_ms: number;
}

/** Of a rollout, unless a scenario says otherwise. */
export const TURNS = 10;

/** The default of scenarios without pace; those with one are long enough alone. */
export const ROUNDS = 3;

export const AT_ONCE: Pace = { thinking_tokens: 8, tokens_per_second: 0, turn_ms: 0 };

/** Turns of 3 s and some 85 tokens. */
export const SLOW: Pace = { thinking_tokens: 60, tokens_per_second: 28, turn_ms: 3000 };

const FAST = {
  place: 'fast-turns',
  turns: TURNS,
  turn_slice: null,
  pace: AT_ONCE,
  contenders: ['durable', 'empty', 'bare'],
} as const;

export const SCENARIOS: readonly Scenario[] = [
  { ...FAST, name: '64 at once', rollouts: 64 },
  { ...FAST, name: '64 at once, slice 0s', rollouts: 64, turn_slice: '0s' },
  { ...FAST, name: '512 at once', rollouts: 512 },
  { ...FAST, name: '512 at once, slice 0s', rollouts: 512, turn_slice: '0s' },
  {
    ...FAST,
    name: 'slow turns: 64 rollouts, 3 s a turn',
    place: 'slow-turns',
    rollouts: 64,
    pace: SLOW,
    contenders: [
      'idle',
      'bare',
      'empty',
      'empty, an activity a rollout',
      'durable, slices of 2s',
      'durable, slices of 10s',
      'durable, slices of 40s',
      'durable',
    ],
  },
  {
    ...FAST,
    name: 'slow turns: 16 rollouts, 1,500 tokens a turn',
    place: 'slow-turns',
    rollouts: 16,
    turns: 4,
    pace: { thinking_tokens: 1475, tokens_per_second: 300, turn_ms: 5000 },
    contenders: ['idle', 'bare', 'empty, an activity a rollout', 'durable'],
  },
  {
    ...FAST,
    name: '128 with observations',
    place: 'observations',
    rollouts: 128,
    contenders: ['durable', 'bare observations'],
  },
];

/** Beside a loop that needs a Python of its own: `PEERS_PYTHON`. */
export const PEERS: readonly Scenario[] = SCENARIOS.filter(
  ({ name }) => name === '64 at once' || name.startsWith('slow turns'),
).map((scenario) => ({
  ...scenario,
  name: `peers, ${scenario.name}`,
  place: 'trainers-loop',
  contenders: ['asyncio loop', 'idle', 'bare', 'durable'],
}));

export const isSlow = ({ pace }: Scenario): boolean => pace.tokens_per_second > 0;

/**
 * Played before the measurement, at full speed, since a worker lives long: compiled code, open connections. With fewer
 * batches, V8 still compiles, which only weighs where turns are fast.
 */
export const WARM_UP = { rollouts: 64, batches: 12 };

/** Sizes of batches; each is played in slices of each of the sizes below. */
export const SLICED = { rollouts: 512, large: 2048, sizes: [64, 128, 256, 300, 512] };

/** Settings of the simulator at its start; scenarios change its pace. */
export const SIMULATOR = {
  skill: 0,
  max_num_seqs: 1024,
  max_model_len: 8192,
  thinking_tokens: AT_ONCE.thinking_tokens,
};

/** The batch that every contender plays: the same boards and seeds, so the same games. */
export const GENERATION = { max_new_tokens: 2048, seed: 17 } as const;
export const MAX_SEQ_LEN = 8192;
