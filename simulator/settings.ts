import { z } from 'zod';

const count = z.int().nonnegative();

const shared = {
  /** How many requests it hits; null: all, until it is cleared. Default 1, or null with a probability. */
  times: z.int().positive().nullish(),
  /** Probability of hitting a request, drawn from the fault's own seeded stream; null: each one. */
  probability: z.number().gt(0).max(1).nullable().default(null),
  /** Seed of that stream. */
  seed: z.int().default(0),
  /**
   * Hits only requests whose X-Session-ID contains this; null: all except those of the sessions `probe` and
   * `weights-probe`.
   */
  match: z.string().nullable().default(null),
};
/** Faults that apply to any endpoint: the one that `path` names, or with null all except the simulator's own. */
const anywhere = { ...shared, path: z.string().nullable().default('/v1/completions') };
const retry_after = z.number().nonnegative().nullable().default(null);

/** Faults that a client must handle. Parameters count generated tokens. */
export const FaultSpec = z.discriminatedUnion('fault', [
  /**
   * Resets the connection. With `for_ms` the first hit closes the listening socket and all connections for that long:
   * connections are refused, even those to the simulator's own endpoints.
   */
  z.strictObject({
    fault: z.literal('refuse'),
    ...shared,
    path: z.string().nullable().default(null),
    for_ms: z.int().positive().nullable().default(null),
  }),
  /** Overloaded (capture 235); `retry_after` in seconds. */
  z.strictObject({ fault: z.literal('503'), ...anywhere, retry_after }),
  z.strictObject({ fault: z.literal('429'), ...anywhere, retry_after }),
  /** Does not take the key (capture 213), or does not have the model (capture 049), as behind a restarted gateway. */
  z.strictObject({ fault: z.literal('401'), ...anywhere }),
  z.strictObject({ fault: z.literal('404'), ...anywhere }),
  /** Accepts the request and sends nothing, or nothing after that many tokens. */
  z.strictObject({ fault: z.literal('stall'), ...anywhere, after_tokens: count.default(0) }),
  /** The process exits with code 1 after it has sent that many tokens. */
  z.strictObject({ fault: z.literal('die'), ...anywhere, after_tokens: count.default(0) }),
  /** Closes the connection in the middle of the stream (capture 212). */
  z.strictObject({ fault: z.literal('cut'), ...shared, after_tokens: count.default(0) }),
  /** A NaN among the logprobs, null on the wire. */
  z.strictObject({ fault: z.literal('nan_logprob'), ...shared, at_token: count.default(0) }),
  /** `prompt_token_ids` differs from the prompt in its last id. */
  z.strictObject({ fault: z.literal('wrong_echo'), ...shared }),
  /** An error inside the stream, then [DONE] (capture 190); 500 without a stream. */
  z.strictObject({ fault: z.literal('in_band_error'), ...shared, after_tokens: count.default(0) }),
  /** Usage and [DONE] without a finish reason (captures 146, 148). */
  z.strictObject({
    fault: z.literal('done_without_finish'),
    ...shared,
    after_tokens: count.default(0),
  }),
  /** Finish reason `abort` (capture 140). */
  z.strictObject({ fault: z.literal('abort_finish'), ...shared, after_tokens: count.default(0) }),
  /** That many tokens in each event, fewer in the last (capture 009). */
  z.strictObject({ fault: z.literal('merged_deltas'), ...shared, tokens: z.int().positive() }),
  /** Each token in its own event, and the stream in pieces of that many bytes, so events are cut anywhere. */
  z.strictObject({ fault: z.literal('split_deltas'), ...shared, bytes: z.int().positive() }),
  /** The call waits until the fault is cleared, or this long; then it is executed. It counts as a hit at once. */
  z.strictObject({
    fault: z.literal('hold'),
    ...anywhere,
    for_ms: z.int().positive().nullable().default(null),
  }),
  /** The call is executed, and its connection is reset instead of an answer. */
  z.strictObject({ fault: z.literal('lost_answer'), ...anywhere }),
  /** 200 and `{"success": false}`; nothing is executed. */
  z.strictObject({ fault: z.literal('unsuccessful'), ...anywhere }),
  /** `/collective_rpc` loads one part of the weights and reports failure, or success. */
  z.strictObject({
    fault: z.literal('load_half'),
    ...shared,
    says: z.enum(['failure', 'success']),
  }),
  /** `/collective_rpc`, or `/update_weights`, reports success and leaves the weights as they are. */
  z.strictObject({
    fault: z.literal('load_nothing'),
    ...anywhere,
    path: z.string().default('/collective_rpc'),
  }),
  /** `/update_weights` waits for its sender until the fault is cleared; meanwhile only `/health` answers. */
  z.strictObject({ fault: z.literal('hang'), ...shared }),
]);
export type FaultSpec = z.infer<typeof FaultSpec>;

const ThinkingRange = z
  .tuple([count, count])
  .refine(([min, max]) => min <= max, { message: 'expected [min, max] with min at most max' });

/** Many short and some long ones, as of real policies. */
const LogNormal = z.strictObject({ median: z.number().positive(), sigma: z.number().positive() });

/** Settings that may change while the simulator runs. */
const changeable = {
  /** Speed of each request; 0: no limit, the whole answer is sent at once. */
  tokens_per_second: z.number().nonnegative(),
  ms_to_first_token: z.number().nonnegative(),
  /** Tokens before the action: a number, or a range or a log-normal law from which each turn draws. */
  thinking_tokens: z.union([count, ThinkingRange, LogNormal]),
  /** 0 plays at random; from 3 on nearly every move is a best one. */
  skill: z.number().nonnegative(),
  /** The thoughts are between `<think>` and `</think>`. */
  think_tags: z.boolean(),
  /** The share of calls of tools that are no JSON. */
  malformed_calls: z.number().min(0).max(1),
  /** Seed of the stream for requests without a seed; null: another one at each start. */
  seed: z.int().nullable(),
  /** Concurrent generations; others wait. */
  max_num_seqs: z.int().positive(),
};

const Dialect = z.enum(['vllm', 'sglang']);
export type Dialect = z.infer<typeof Dialect>;

export const SimulatorSettings = z.strictObject({
  /** Whose routes it has. SGLang's change weights in any mode; its `model_path` is a file as `weights_path` below. */
  dialect: Dialect.default('vllm'),
  /** As SGLang's `--incremental-streaming-output`: each event has only what is new. */
  incremental_streaming: z.boolean().default(false),
  /** As SGLang's `--enable-weights-cpu-backup`: weights are there again after a sleep. */
  weights_backup: z.boolean().default(true),
  tokens_per_second: changeable.tokens_per_second.default(0),
  ms_to_first_token: changeable.ms_to_first_token.default(0),
  thinking_tokens: changeable.thinking_tokens.default([8, 40]),
  skill: changeable.skill.default(1),
  think_tags: changeable.think_tags.default(false),
  malformed_calls: changeable.malformed_calls.default(0),
  seed: changeable.seed.default(null),
  max_num_seqs: changeable.max_num_seqs.default(256),
  /** As vLLM's `--logprobs-mode`, whose default is `raw`. */
  logprobs_mode: z.enum(['processed', 'raw']).default('processed'),
  /** The name that requests use. */
  model: z.string().min(1).default('simulator'),
  max_model_len: z.int().min(2).default(8192),
  /**
   * Serves what vLLM serves with VLLM_SERVER_DEV_MODE=1: `/pause`, `/resume`, `/is_paused`, `/collective_rpc` (method
   * `reload_weights`, whose `weights_path` is a file {name, skill, seed}, or the address of a folder on S3 with that as model.safetensors), `/weight_info`, `/update_weight_version`,
   * `/reset_prefix_cache` and the routes of a transfer, whose `update_info` is {weights: {name, skill, seed}, part, parts}. Without it they are not found (captures 192 to 201).
   */
  dev_mode: z.boolean().default(false),
  /**
   * Serves `/v1/load_lora_adapter`, whose `lora_path` is a file {name, skill, seed}, and `/v1/unload_lora_adapter`, like
   * vLLM with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING. Further adapters are refused, where vLLM swaps them.
   * null: the routes are not found (capture 177).
   */
  max_loras: z.int().positive().nullable().default(null),
  /** How many processes answer at its URL in turn, each with a label of its own. */
  front_ends: z.int().positive().default(1),
  /** What `/get_world_size` says. */
  world_size: z.int().positive().default(1),
  /**
   * Serves `/inference/v1/generate` and `/v1/chat/completions/render`, like vLLM with --enable-scale-out; without it they
   * are refused (captures 203 and 206).
   */
  scale_out: z.boolean().default(false),
  /** Required for `/v1` and `/inference`, like vLLM's --api-key; null: none. */
  api_key: z.string().min(1).nullable().default(null),
  /** Faults from the start. */
  faults: z.array(FaultSpec).default([]),
  /** Appends each completion request, except those of probes, when it arrives and when it ends, one JSON line each. */
  log_file: z.string().min(1).nullable().default(null),
  /** Adds a line whenever tokens are sent, so that the output of a killed process is known. */
  log_tokens: z.boolean().default(false),
  /** How many requests `/simulator/requests` remembers. */
  log_limit: z.int().positive().default(10_000),
});
export type SimulatorSettings = z.infer<typeof SimulatorSettings>;

/** Body of `PUT /simulator/settings`: any of what may change. */
export const SettingsChange = z.strictObject({
  tokens_per_second: changeable.tokens_per_second.optional(),
  ms_to_first_token: changeable.ms_to_first_token.optional(),
  thinking_tokens: changeable.thinking_tokens.optional(),
  skill: changeable.skill.optional(),
  think_tags: changeable.think_tags.optional(),
  malformed_calls: changeable.malformed_calls.optional(),
  seed: changeable.seed.optional(),
  max_num_seqs: changeable.max_num_seqs.optional(),
});
export type SettingsChange = z.infer<typeof SettingsChange>;
