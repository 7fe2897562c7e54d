/** What pages may say though no program here has it: names of other programs. */

export const FOREIGN_FILES: ReadonlySet<string> = new Set([
  // NeMo RL's, NeMo Gym's and trl's.
  ...['sliding_puzzle.py', 'env.yaml', 'qwen3_training.jinja'],
]);

export const FOREIGN_OPTIONS: ReadonlySet<string> = new Set([
  // vLLM's.
  ...['--stream-interval', '--data-parallel-size', '--gpu-memory-utilization'],
]);

export const FOREIGN_NAMES: ReadonlySet<string> = new Set([
  // Of Kubernetes, and of Temporal's CLI.
  ...['terminationGracePeriodSeconds', 'ApproximateBacklogAge'],
  // Of PostgreSQL.
  'pg_dump',
  // Of trainers (docs/weights.md, docs/trainers.md).
  ...['max_completion_length', 'steps_per_generation', 'num_iterations', 'val_kwargs'],
  'off_policy_mask_threshold',
  ...['BasePPOExp', 'get_generator', 'generate_rollout'],
  ...['step_wise_trajectories', 'apply_overlong_filtering', 'zero_reward_on_non_stop'],
  ...['policy_generation', 'input_batch', 'nemo_rl'],
  ...['start_weight_update', 'update_weights', 'finish_weight_update'],
  // Of vLLM, as its messages say them (test/interop/README.md).
  ...['sample_tokens', 'max_num_batched_tokens'],
  // Of NeMo RL and NeMo Gym (docs/nemo.md).
  ...['run_multi_turn_rollout', 'run_async_multi_turn_rollout', 'run_sample_multi_turn_rollout'],
  ...[
    'generate_responses',
    'calculate_rewards',
    'VllmGeneration',
    'vllm_backend',
    'run_from_config',
    'setup_server_client',
  ],
  // Of NeMo Gym 0.7.0, likewise.
  ...['task_source', 'task_input', 'single_agent_turn', 'nemo_user_sim', 'resources_server'],
  ...['failure_kind', 'failure_reason', 'repeat_level_metrics', 'perf_summary', 'ng_perf'],
  ...['delta_records', 'external_staging', 'lineage_store'],
  // Of pandas, datasets and TypeScript.
  ...['read_json', 'load_dataset', 'skipLibCheck'],
  // A user's.
  'my_agent',
]);

/** Read by other programs, or no variables. */
export const FOREIGN_VARIABLES: ReadonlySet<string> = new Set([
  ...['VLLM_SERVER_DEV_MODE', 'VLLM_ALLOW_RUNTIME_LORA_UPDATING'],
  'FAILED_PRECONDITION',
  // Values of accelerate's options.
  ...['SHARDED_STATE_DICT', 'TRANSFORMER_BASED_WRAP'],
  // Temporal's visibility queries have it.
  'STARTS_WITH',
  // Node.js reads it.
  'NODE_EXTRA_CA_CERTS',
  // Temporal's SDKs do.
  'TEMPORAL_TLS_SERVER_NAME',
  'ROW_COLUMNS',
]);

/** Of every program, or between processes of ours: no page needs to explain them. */
export const INTERNAL_VARIABLES: ReadonlySet<string> = new Set([
  ...['PATH', 'HOME', 'VIRTUAL_ENV', 'TERM', 'TMPDIR', 'CI', 'LESS', 'ROLLOUT_LIFELINE'],
  // Set by Node.js for its children.
  'NODE_CHANNEL_FD',
]);
