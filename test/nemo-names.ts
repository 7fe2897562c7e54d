/**
 * The names of four documents of NeMo RL and NeMo Gym that docs/nemo.md and gym/UPSTREAM.md have rows for
 * (test/semantics.test.ts): their functions, classes, commands and parameters.
 */
export const NEMO_NAMES: Record<string, readonly string[]> = {
  'the API of nemo_rl.experience.rollouts': [
    ...['TokenizerType', 'generate_responses', 'generate_responses_async', 'calculate_rewards'],
    ...['run_multi_turn_rollout', 'async_generate_response_for_sample_turn'],
    ...['run_sample_multi_turn_rollout', 'run_async_multi_turn_rollout'],
    ...['policy_generation', 'generation_input_data', 'batch', 'tokenizer', 'input_lengths'],
    ...['include_logprobs', 'greedy', 'task_to_env', 'input_batch', 'max_seq_len'],
    ...['max_rollout_turns', 'sample_message_log', 'sample_stop_strings', 'sample_idx'],
    'initial_sample_state',
  ],
  'the source of nemo_rl.experience.rollouts': [
    ...['DatumSpec', 'FlatMessagesType', 'LLMMessageLogType', 'BatchedDataDict'],
    ...['batched_message_log_to_flat_message', 'get_keys_from_message_log'],
    ...['EnvironmentInterface', 'EnvironmentReturn'],
    ...['GenerationDatumSpec', 'GenerationInterface', 'GenerationOutputSpec'],
  ],
  'the API of nemo_gym.rollout_collection': [
    ...['SharedRolloutCollectionConfig', 'RolloutCollectionConfig', 'E2ERolloutCollectionConfig'],
    ...['RolloutAggregationConfig', 'BaseNeMoGymCLIConfig', 'BaseServerConfig', 'ServerClient'],
    ...['RolloutCollectionHelper', 'RolloutAggregationHelper'],
    ...['disable_aggregation', 'num_samples_in_parallel', 'output_jsonl_fpath'],
    ...['responses_create_params', 'upload_rollouts_to_wandb'],
    ...['agent_name', 'input_jsonl_fpath', 'limit', 'materialized_jsonl_fpath', 'num_repeats'],
    ...['num_repeats_add_seed', 'prompt_config', 'resume_from_cache'],
    ...['reuse_existing_data_preparation', 'split', 'input_glob', 'merge_shards'],
    ...['_call_aggregate_metrics', 'results', 'rows', 'output_fpath', '/aggregate_metrics'],
    ...['_load_from_cache', '_preprocess_rows_from_config', 'run_from_config', 'config'],
    ...['run_examples', 'examples', 'head_server_config', 'semaphore', 'setup_server_client'],
    ...['_expand_input_glob', '_rollout_request_debug_summary', 'row'],
    ...['aggregate_rollouts', 'collect_rollouts', 'ng_aggregate_rollouts', 'ng_collect_rollouts'],
  ],
  'a diagram of the parts of NeMo RL': [
    ...['RolloutManager', 'VLLMGeneration', 'VLLMBackend', 'Environments', 'RetrieverTool'],
    ...['CodeEnvironment', 'MathEnvironment', 'VLMEnvironment', 'SlidingPuzzleEnvironment'],
  ],
};
