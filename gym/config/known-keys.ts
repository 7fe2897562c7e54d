import { nearest } from '../../src/platform/nearest.js';
import type { Json } from '../json/exact.js';
import { isObject } from '../json/exact.js';

/**
 * Keys that Gym's commands accept beside a command's own fields (`nemo_gym/global_config.py` and others at 07d6b0d).
 */

/**
 * These matter here: where the servers are, which files are read, where model calls are captured, and where results are
 * uploaded.
 */
export const EFFECTIVE_KEYS = new Set([
  'config_paths',
  'head_server',
  'default_host',
  'observability_enabled',
  'model_call_capture_dir',
  'mlflow_tracking_uri',
  'mlflow_tracking_token',
  'mlflow_experiment_name',
  'mlflow_run_name',
  'wandb_project',
  'wandb_name',
  'wandb_api_key',
  'results_dir',
]);

/**
 * These concern servers, installation and other commands, or older releases: accepted, without effect on a
 * collection.
 */
const WITHOUT_EFFECT = new Set(
  `entrypoint disallowed_ports head_server_deps python_version pip_install_verbose use_absolute_ip uv_pip_set_python
  skip_venv_if_present hf_token ray_head_node_address port_range_low port_range_high dry_run
  uvicorn_timeout_worker_healthcheck model_endpoint_readiness_timeout_seconds allow_openai_version_skew uv_cache_dir
  uv_venv_dir cache_dir _inherit_from _copy nemo_gym_log_dir verbose json query token_id_capture component_name skip_verification skip_verification_reward
  error_on_almost_servers should_download mode data_source output_dirpath overwrite_metrics_conflicts
  use_cached_prepared_benchmarks num_prepare_benchmark_processes prepare_script_args
  profiling_enabled profiling_results_dirpath uvicorn_logging_show_200_ok hydra h help benchmark pass_threshold json_format should_validate_data
  allow_unsupported_pairing interleave_repeats disable_health_check health_check_workers health_check_ignored_checks require_complete`.split(
    /\s+/,
  ),
);

/**
 * Keys of 0.7.0 that change how upstream's collector runs, or what it checks afterwards. Those that change what is
 * played or counted are refused (schemas.ts).
 */
const OF_NEWER_RELEASES = new Set(
  `retain_results_in_memory disable_health_check health_check_workers health_check_ignored_checks dispatch_budget_s
  drain_margin_s dispatch_longest_first retry_terminal_timeouts retry_invalid_judge_responses task_data_validation
  telemetry server_spinup_timeout_seconds uv_lock_timeout_seconds uvicorn_proxy_headers uvicorn_forwarded_allow_ips
  allow_unsupported_pairing error_on_agent_without_environment_server`.split(/\s+/),
);

export const hasNoEffect = (key: string): boolean =>
  WITHOUT_EFFECT.has(key) || OF_NEWER_RELEASES.has(key) || /^(?:policy_|global_aiohttp_)/.test(key);

const SERVER_KINDS = [
  'responses_api_models',
  'resources_servers',
  'responses_api_agents',
  // Since 0.7.0.
  'environment_servers',
];

/** A mapping that configures a server. */
export const isServer = (value: Json | undefined): boolean =>
  isObject(value) && SERVER_KINDS.some((kind) => isObject(value[kind]));

/** A suggestion for an unknown name, or ''. */
export function didYouMean(name: string, known: Iterable<string>): string {
  const near = nearest(name, { known, mistakes: Math.max(2, Math.floor(name.length / 3)) });
  return near === null ? '' : `. Did you mean ${near}?`;
}

/** Probably a typing mistake: one letter differs. */
export const isTypingMistake = (name: string, known: Iterable<string>): boolean =>
  nearest(name, { known, mistakes: 1 }) !== null;
