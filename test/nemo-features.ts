/** The tests that show what docs/nemo.md and gym/UPSTREAM.md say (test/semantics.test.ts), by a row's first cell. */
import type { Tests } from './promises.js';
import { E2E, ENVIRONMENTS } from './promises.js';

const ACTIVITIES = 'test/activities';
const MODEL = 'test/model';
const INTEROP = 'test/interop';
const GYM = 'gym/test';
const LONG = 'test/long';
const ENGINE = 'test/generation';

export const NEMO_FEATURES: Record<string, Tests> = {
  '`run_multi_turn_rollout`': [
    `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
    `${ACTIVITIES}/recorded-runs/exceptions.test.ts › there are 400 recorded cases`,
    `${ACTIVITIES}/recorded-runs/exceptions.test.ts › \${count} cases are an exception, because \${reason}`,
  ],
  '`run_async_multi_turn_rollout`': [
    `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
    `${E2E}/recorded-runs.test.ts › there are thirty-three`,
    `${E2E}/recorded-runs.test.ts › golden.name`,
  ],
  '`run_sample_multi_turn_rollout`': [
    `${LONG}/single-rollout.test.ts › is a batch of one: it returns the batch result, and its files hold its row`,
  ],
  '`generate_responses`, `generate_responses_async`': [
    `${ACTIVITIES}/generate-turn.test.ts › is in the journal when the activity reports it, and is reported as totals`,
    `${ACTIVITIES}/generate-turn.test.ts › greedily is asked for with temperature 0`,
    `${ENGINE}/vllm-service.test.ts › hands on the recorded ids, logprobs and text of capture \${number}`,

    `${ACTIVITIES}/generate-turn.test.ts › in the middle keeps what had streamed in`,
    `${ENGINE}/vllm-service.test.ts › arrives whole through network packets of 7 bytes`,
  ],
  '`async_generate_response_for_sample_turn`': [
    `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
    `${ACTIVITIES}/generate-turn.test.ts › without room is empty with finish length, and no request is made`,
  ],
  '`RolloutManager`': [
    `${E2E}/recovery-worker.test.ts › has the rows and the metrics of an undisturbed run`,
    `${LONG}/single-rollout.test.ts › is a batch of one: it returns the batch result, and its files hold its row`,
  ],
  '`calculate_rewards`': [
    `${ACTIVITIES}/step-environment.test.ts › shows the environment role and content only, its state, and a key that every attempt shares`,
    `${ACTIVITIES}/step-environment.test.ts › because no worker has its environment is final`,
  ],
  '`Environments`: several in one batch': [
    `${E2E}/mixed.test.ts › waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment`,
  ],
  'observations that do not fit': [
    `${MODEL}/observation-limit.test.ts › leaves no ids and truncates`,
    `${MODEL}/observation-limit.test.ts › under nemo-rl-sync fails with upstream’s text`,
    `${ACTIVITIES}/play-turns.test.ts › is where the log is full: the observation’s ids are cut, its content is not`,
  ],
  'stop strings and metadata from the environment': [
    `${MODEL}/trajectory-turns.test.ts › null from the environment keeps the list, but under nemo-rl-sync it overwrites`,
    `${MODEL}/trajectory-turns.test.ts › under \${semantics} it is what the environment gave last; null keeps it`,
  ],
  'sums of rewards, also named ones': [
    `${MODEL}/trajectory-turns.test.ts › nemo-rl-async and nemo-rl round each step to float32 and add in double`,
    `${MODEL}/trajectory-turns.test.ts › nemo-rl-sync adds in float32 too`,
    `${MODEL}/trajectory-turns.test.ts › named components are float32 where upstream’s are, and so is what a step is worth`,
  ],
  'metrics of a batch': [
    `${MODEL}/metrics.test.ts › are one flat object of finite numbers, and no other names than these`,
    `${MODEL}/metrics.test.ts › natural_termination_rate counts truncation under nemo-rl-sync only`,
  ],
  '`overlong_filtering`': [
    `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
    `${MODEL}/observation-limit.test.ts › truncates its turn under standard and nemo-rl, and nothing is cut`,
  ],
  'a lost process': [
    `${E2E}/recovery-worker.test.ts › generates no turn again that was journalled when the worker was killed`,
    `${E2E}/recovery-worker.test.ts › has the rows and the metrics of an undisturbed run`,
  ],
  '`policy_generation`': [
    `${ACTIVITIES}/generate-turn.test.ts › is asked for with everything explicit`,
    `${ACTIVITIES}/generate-turn.test.ts › because no worker has the service is retried: another one may`,
  ],
  '`input_batch`, `batch`': [
    `${ACTIVITIES}/read-samples.test.ts › come back line by line, as they were written`,
    `${MODEL}/sample.test.ts › keeps unknown columns untouched, whatever they hold`,
  ],
  '`initial_sample_state`, `sample_idx`': [
    `${MODEL}/sample.test.ts › may have all of upstream’s columns, stop_strings also null`,
    `${LONG}/single-rollout.test.ts › renders its prompt by the service and keeps what the sample brought`,
  ],
  '`generation_input_data`, `input_lengths`, `sample_message_log`': [
    `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
    `${ACTIVITIES}/play-turns.test.ts › between two turns costs neither: the next one continues with the second`,
  ],
  '`sample_stop_strings`': [
    `${MODEL}/trajectory-turns.test.ts › under \${semantics} the environment’s list replaces the sample’s`,
    `${ACTIVITIES}/stop-strings.test.ts › has the stop string in its content where the engine cuts it off`,
  ],
  '`tokenizer`, `TokenizerType`': [
    `${ACTIVITIES}/render-prompt.test.ts › gives message k the ids that rendering messages 0 to k adds, the last one the generation prompt`,
    `${ACTIVITIES}/render-prompt.test.ts › is used as it is, logprobs included, without a request to the service`,
  ],
  '`task_to_env`': [
    `${ACTIVITIES}/step-environment.test.ts › because no worker has its environment is final`,
    `${E2E}/mixed.test.ts › waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment`,
  ],
  '`max_seq_len`': [
    `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
    `${MODEL}/observation-limit.test.ts › leaves no ids and truncates`,
  ],
  '`max_rollout_turns`': [
    `${ACTIVITIES}/play-turns.test.ts › is where the turn limit is`,
    `${MODEL}/stop-rules.test.ts › with max_rollout_turns 0 nothing is generated at all`,
  ],
  '`greedy`': [`${ACTIVITIES}/generate-turn.test.ts › greedily is asked for with temperature 0`],
  '`include_logprobs`': [
    `${ENGINE}/vllm-service.test.ts › leaves out logprobs, stops and seed when there are none`,
  ],
  '`DatumSpec`, `LLMMessageLogType`': [
    `${MODEL}/sample.test.ts › may have all of upstream’s columns, stop_strings also null`,
    `${E2E}/recorded-runs.test.ts › golden.name`,
  ],
  '`BatchedDataDict`, `FlatMessagesType`, `batched_message_log_to_flat_message`': [
    `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › their rows have equal arrays as lines and as Arrow`,
    `${ENVIRONMENTS}/python.test.ts › passes its own tests`,
  ],
  '`get_keys_from_message_log`': [
    `${ACTIVITIES}/step-environment.test.ts › shows the environment role and content only, its state, and a key that every attempt shares`,
  ],
  '`GenerationInterface`, `GenerationDatumSpec`, `GenerationOutputSpec`': [
    `${ENGINE}/vllm-service.test.ts › hands on the recorded ids, logprobs and text of capture \${number}`,
    `${ENGINE}/vllm-service.test.ts › sends every sampling parameter, so that no server default applies`,
  ],
  '`EnvironmentInterface`, `EnvironmentReturn`': [
    `${ENVIRONMENTS}/http.test.ts › sends the logs, the metadata and the headers of the protocol`,
    `${ENVIRONMENTS}/http.test.ts › takes an answer without stop strings and without extracted answers`,
  ],
  '`VllmGeneration`, `VLLMGeneration`': [
    `${INTEROP}/batch.test.ts › whose worker is killed in its midst has the rows of the undisturbed one`,
    `${INTEROP}/batch.test.ts › that is paused in its midst with mode=\${mode} waits, and then has the rows of the undisturbed one, at the first attempt`,
    `${INTEROP}/engine-kill.test.ts › in its midst, and started again minutes later, has the rows of the undisturbed one`,
    `${E2E}/replicas.test.ts › keeps rollouts on one of them, but for those that one has no room for, and uses both`,
  ],
  'logprobs of the sampled tokens': [
    `${INTEROP}/logprobs.test.ts › are in rows those that torch computes of the distribution at the temperature`,
  ],
  'weight updates of `vllm_backend`, `VLLMBackend`': [
    `${ACTIVITIES}/bring-replica.test.ts › goes through every phase, recorded before the first of them and behind the last`,
    `${INTEROP}/policy.test.ts › mode \${mode}, wire \${wire}: each token has the version whose weights torch finds it sampled with`,
  ],
  'groups as they finish, for an asynchronous trainer': [
    `${E2E}/stream.test.ts › delivers step after step, each sample once an epoch`,
  ],
  'multi-turn chat templates': [
    `${INTEROP}/chat.test.ts › is sent the engine’s own rendering at each turn, cut anywhere or not`,
  ],
  'sliding puzzle (`SlidingPuzzleEnvironment`)': [
    `${ENVIRONMENTS}/sliding-puzzle/environment.test.ts › plays \${name} as upstream did`,
  ],
  'maths (`MathEnvironment`): math-verify, DAPO, multiple choice': [
    `${ENVIRONMENTS}/math/goldens.test.ts › the verdicts of \${name}`,
    `${ENVIRONMENTS}/math/goldens.test.ts › the steps of \${name}`,
    `${ENVIRONMENTS}/math/pure-verifiers.test.ts › judges as upstream’s in \${name}`,
  ],
  'code that runs between tags (`CodeEnvironment`)': [
    `${ENVIRONMENTS}/code/goldens.test.ts › \${name} answers as upstream did`,
    `${ENVIRONMENTS}/code/escapes.test.ts › no attempt gets through`,
  ],
  'code similarity': [
    `${ENVIRONMENTS}/code-jaccard/code-jaccard.test.ts › is upstream’s in \${name}`,
  ],
  'VLM rewards (`VLMEnvironment`)': [
    `${ENVIRONMENTS}/vlm/goldens.test.ts › the step of \${file}`,
    `${ENVIRONMENTS}/vlm/goldens.test.ts › the rewards of \${file}`,
  ],
  'pictures in prompts and observations': [
    `${INTEROP}/pictures.test.ts › 32 greedy rollouts whose worker is killed have the rows of undisturbed ones, and first turns that are those of /v1/chat/completions`,
    `${INTEROP}/pictures.test.ts › 32 sampled rollouts whose worker is killed have the logprobs that torch computes of ids and pictures`,
    `${INTEROP}/pictures.test.ts › after an update of the weights are seen with the new ones`,
    `${ACTIVITIES}/image-prompts.test.ts › has a row with the image as the sample has it`,
    `${ACTIVITIES}/image-prompts.test.ts › is refused where the service is sent token ids alone, and under prompt_format raw`,
  ],
  'BM25 retriever (`RetrieverTool`)': [
    `${ENVIRONMENTS}/retriever/retriever.test.ts › ranks as upstream’s does in \${name}, ties by place`,
    `${ENVIRONMENTS}/retriever/retriever.test.ts › answers as upstream’s does`,
    `${ENVIRONMENTS}/retriever/corpora.test.ts › may have any column of texts`,
    `${ENVIRONMENTS}/retriever/corpora.test.ts › of the Hub is found in its cache by name: a repository, a folder or a file`,
  ],
  'reward models': [
    `${ENVIRONMENTS}/reward-model/reward-model.test.ts › is sent whole conversations as they are, and its scores are the rewards`,
  ],
  'calculator with several turns': [
    `${ENVIRONMENTS}/calculator/calculator.test.ts › answers as upstream’s does in \${name}`,
  ],
  'an environment of your own': [
    `${ENVIRONMENTS}/http.test.ts › sends the logs, the metadata and the headers of the protocol`,
    `${ENVIRONMENTS}/user-module.test.ts › answers one sample at a time in TypeScript`,
    `${ENVIRONMENTS}/python.test.ts › serves a class to kind http, and ends with SIGTERM`,
  ],
  'NeMo Gym inside of NeMo RL': [
    `${ENVIRONMENTS}/gym-agent/recorded-results.test.ts › \${name}: \${replies.length - failed} rows, \${failed} failures\${fate}`,
    `${LONG}/gym-agent.test.ts › whose worker and whose server are killed has every row once, with what became of it`,
  ],
  'effort levels, reward penalties, masked samples': [
    `${MODEL}/agent-shaping.test.ts › change the reward of the row, which keeps the own one beside it`,
    `${MODEL}/agent-shaping.test.ts › win over effort levels, and the row tells both`,
    `${MODEL}/agent-shaping.test.ts › may train on answers with mask_sample as on any`,
    `${ENVIRONMENTS}/gym-agent/recorded-results.test.ts › \${name}: \${replies.length - failed} rows, \${failed} failures\${fate}`,
  ],
  '`RolloutCollectionConfig`, `SharedRolloutCollectionConfig`, `BaseNeMoGymCLIConfig`': [
    `${GYM}/collect-config.test.ts › the documented command of ng_collect_rollouts is understood, with every default`,
    `${GYM}/collect-config.test.ts › the other commands have their own fields and flags`,
    `${GYM}/overrides.test.ts › upstream's own example commands come out as they are meant`,
  ],
  '`agent_name`': [
    `${GYM}/rows-goldens.test.ts › \${name}: the rows are upstream's, in dispatch order`,
    `${GYM}/materialize.test.ts › with a limit, rows without an agent are named by index; the lines are named in any case`,
  ],
  '`input_jsonl_fpath`, `limit`': [
    `${GYM}/materialize.test.ts › a missing input file is named`,
    `${GYM}/materialize.test.ts › lines beyond the limit are not read, and a limit of 0 is none`,
  ],
  '`num_repeats`, `num_repeats_add_seed`': [
    `${GYM}/materialize.test.ts › agents without a number of repeats are all named, with those that have one`,
    `${GYM}/materialize.test.ts › an override keeps how its number was written, and a seed the rest of extra_body`,
  ],
  '`responses_create_params`': [
    `${GYM}/collect-config.test.ts › parameters may be nested or dotted, and a file may say it all`,
    `${GYM}/materialize.test.ts › an override keeps how its number was written, and a seed the rest of extra_body`,
  ],
  '`prompt_config`': [
    `${GYM}/materialize.test.ts › a system template comes first, and both see the fields of the row`,
  ],
  '`num_samples_in_parallel`': [
    `${GYM}/collection/batch-request.test.ts › no limit of upstream’s is a large one here`,
  ],
  '`output_jsonl_fpath`, `materialized_jsonl_fpath`': [
    `${GYM}/collection/follower.test.ts › results are written in completion order, once, and failures beside them`,
    `${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`,
  ],
  '`disable_aggregation`': [
    `${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`,
  ],
  '`_preprocess_rows_from_config`: prompts, agents, repeats, seeds, skills': [
    `${GYM}/rows-goldens.test.ts › \${name}: the rows are upstream's, in dispatch order`,
    `${GYM}/rows-goldens.test.ts › \${name}: the error is upstream's`,
  ],
  '`run_from_config` of `RolloutCollectionHelper`; `collect_rollouts`, `ng_collect_rollouts`': [
    `${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`,
    `${INTEROP}/nemo-gym.test.ts › the files of both collectors are the same, captured calls included`,
  ],
  '`RolloutCollectionHelper`, `RolloutAggregationHelper`': [
    `${GYM}/long/python-collect.test.ts › collect, aggregate and run_examples give the results of the agents, and a failure to its row`,
    `${GYM}/python-fields.test.ts › are the fields of the commands, and the keys that matter to them`,
  ],
  '`run_examples`, `examples`, `semaphore`': [
    `${GYM}/collection/batch-request.test.ts › a row is a sample that an agent plays, its text as it was written`,
    `${ACTIVITIES}/run-agent.test.ts › starts its rollouts with a plan that names agent, row and attempt, and renders nothing`,
  ],
  '`setup_server_client`, `head_server_config`, `ServerClient`, `BaseServerConfig`': [
    `${GYM}/collect-config.test.ts › the head server may be elsewhere`,
    `${ENVIRONMENTS}/gym-agent/agents.test.ts › is asked of the head server again when it is not where it was`,
  ],
  '`_rollout_request_debug_summary`': [
    `${GYM}/collection/routing.test.ts › is stamped at its end with the keys of its row, in upstream’s order`,
    `${GYM}/collection/routing.test.ts › has its class, its attempt and what happened, and neither reward nor response`,
  ],
  '`resume_from_cache`, `_load_from_cache`': [
    `${GYM}/resume-goldens.test.ts › \${name}: the same rows are left, with the same attempts and summary`,
    `${INTEROP}/nemo-gym.test.ts › what \${first} began, \${then} ends`,
  ],
  'failures beside the results': [
    `${GYM}/collection/routing.test.ts › goes to the failures where it names a class, even an empty one, and nowhere where it asks for that`,
    `${GYM}/collection/follower.test.ts › an answer whose reward is no use is a failure with all that it answered, so that it can still be scored`,
  ],
  '`E2ERolloutCollectionConfig`': [
    `${GYM}/serve/prepare-data.test.ts › rows of all its datasets come agent by agent, repeated in place, each with its agent, in Python's JSON`,
    `${GYM}/serve/data-metrics.test.ts › are upstream’s, byte for byte: repeats, lists, texts, booleans, several data sets`,
    `${GYM}/serve/clean-folder.test.ts › names each file that upstream would download, whence to get it and where to put it`,
    `${GYM}/serve/prepare.test.ts › servers are started with a log, waited for, and stopped as Ctrl-C does it`,
    `${GYM}/serve/prepare-data.test.ts › a file that a cache of the Hub has is read there`,
    `${GYM}/serve/installed.test.ts › its configurations are found, its command prepares a benchmark without a network, and starts the servers`,
  ],
  '`split`': [
    `${GYM}/serve/prepare-data.test.ts › a split without data is an error that says what there is`,
  ],
  '`reuse_existing_data_preparation`': [
    `${GYM}/serve/prepare.test.ts › prepared data is used again only where it is asked for`,
  ],
  '`RolloutAggregationConfig`, `RolloutAggregationHelper`; `aggregate_rollouts`, `ng_aggregate_rollouts`':
    [
      `${GYM}/aggregate.test.ts › upstream’s recorded shards: same files, same merge, same metrics but for pass@k, which upstream leaves to servers`,
      `${GYM}/cli/gym-metrics.test.ts › shards that each number their tasks from 0 are an error with the total, and nothing is written`,
    ],
  '`input_glob`, `_expand_input_glob`': [
    `${GYM}/metrics/text.test.ts › globs are Python’s: each sorted, each file once, hidden files only by name`,
  ],
  '`merge_shards`': [
    `${GYM}/aggregate.test.ts › four shards come out as the whole does, byte for byte, merged file included`,
  ],
  '`_call_aggregate_metrics`: `/aggregate_metrics` of each agent': [
    `${GYM}/agent-answer.test.ts › it is sent the results in order, without what is heavy, and its answer is taken as it is`,
    `${GYM}/agent-answer.test.ts › a server that \${what} has no entry, and no other metrics stand in its place`,
  ],
  'means, spreads, pass@k, majority@k': [
    `${GYM}/metrics/exact.test.ts › are upstream’s to the last digit: means, spreads, pass@k, majority@k`,
  ],
  'reward profile': [
    `${GYM}/reward-profile.test.ts › \${name}: both files hold what upstream’s do, or none is written`,
  ],
  'captured model calls': [
    `${GYM}/capture/attach.test.ts › is upstream's: \${golden['name'] as string}`,
  ],
  'servers of the gymnasium kind': [
    `${LONG}/gymnasium.test.ts › loses its worker, then its servers with all their sessions: no step is played twice in a session, all are closed, and the rewards are right`,
  ],
  '`upload_rollouts` and `upload_rollouts_to_wandb`': [
    `${GYM}/upload/mlflow.test.ts › is one run with configuration, metrics and results, and ends`,
    `${GYM}/upload/wandb.test.ts › is one run with configuration, results and metrics, and ends`,
    `${GYM}/cli/gym-metrics.test.ts › uploads its metrics to the MLflow server that is named`,
  ],
  '`rollout_collection_driver`, `gym eval reverify`, rebuilt responses of `token_id_capture`': [
    `${GYM}/collect-config.test.ts › a driver is Python and refused`,
    `${GYM}/collect-config.test.ts › servers, variables and global keys are accepted, and the idle ones said once`,
  ],
};
