/** What of NeMo Gym is here, and the tests that show it: the table of gym/UPSTREAM.md, as nemo-features.ts has NeMo RL's. */
import type { Features } from './nemo-features.js';
import { ENVIRONMENTS } from './promises.js';

const ACTIVITIES = 'test/activities';
const INTEROP = 'test/interop';
const GYM = 'gym/test';
const LONG = 'test/long';

export const GYM_FEATURES: Features = {
  'gym-collection': {
    '`RolloutCollectionConfig`, `SharedRolloutCollectionConfig`, `BaseNeMoGymCLIConfig`': {
      here: 'the same fields, defaults, flags, files and interpolations',
      tests: [
        `${GYM}/collect-config.test.ts › the documented command of ng_collect_rollouts is understood, with every default`,
        `${GYM}/collect-config.test.ts › the other commands have their own fields and flags`,
        `${GYM}/overrides.test.ts › upstream's own example commands come out as they are meant`,
      ],
    },
    '`agent_name`': {
      here: 'the agent of rows without `agent_ref`',
      tests: [
        `${GYM}/rows-goldens.test.ts › \${name}: the rows are upstream's, in dispatch order`,
        `${GYM}/materialize.test.ts › with a limit, rows without an agent are named by index; the lines are named in any case`,
      ],
    },
    '`input_jsonl_fpath`, `limit`': {
      here: 'the rows, or the first of them',
      tests: [
        `${GYM}/materialize.test.ts › a missing input file is named`,
        `${GYM}/materialize.test.ts › lines beyond the limit are not read, and a limit of 0 is none`,
      ],
    },
    '`num_repeats`, `num_repeats_add_seed`': {
      here: 'rollouts of each row, by agent too, and a seed for each',
      tests: [
        `${GYM}/materialize.test.ts › agents without a number of repeats are all named, with those that have one`,
        `${GYM}/materialize.test.ts › an override keeps how its number was written, and a seed the rest of extra_body`,
      ],
    },
    '`responses_create_params`': {
      here: "laid over each row's",
      tests: [
        `${GYM}/collect-config.test.ts › parameters may be nested or dotted, and a file may say it all`,
        `${GYM}/materialize.test.ts › an override keeps how its number was written, and a seed the rest of extra_body`,
      ],
    },
    '`prompt_config`': {
      here: 'a template that makes the input of each row',
      tests: [
        `${GYM}/materialize.test.ts › a system template comes first, and both see the fields of the row`,
      ],
    },
    '`num_samples_in_parallel`': {
      here: 'rows at once; without a limit 1,024',
      tests: [
        `${GYM}/collection/batch-request.test.ts › no limit of upstream’s is a large one here`,
      ],
    },
    '`output_jsonl_fpath`, `materialized_jsonl_fpath`': {
      here: 'results as they come, the rows beside them',
      tests: [
        `${GYM}/collection/follower.test.ts › results are written in completion order, once, and failures beside them`,
        `${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`,
      ],
    },
    '`disable_aggregation`': {
      here: 'no metrics, as of a shard',
      tests: [`${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`],
    },
    '`_preprocess_rows_from_config`: prompts, agents, repeats, seeds, skills': {
      here: 'recorded rows and errors',
      tests: [
        `${GYM}/rows-goldens.test.ts › \${name}: the rows are upstream's, in dispatch order`,
        `${GYM}/rows-goldens.test.ts › \${name}: the error is upstream's`,
      ],
    },
    '`run_from_config` of `RolloutCollectionHelper`; `collect_rollouts`, `ng_collect_rollouts`': {
      here: "`temporal-rollout collect`, with the fields of `config`: recorded files; equal to a real NeMo Gym's",
      tests: [
        `${GYM}/collection/goldens.test.ts › \${golden.name} dispatches and writes the same`,
        `${INTEROP}/nemo-gym.test.ts › the files of both collectors are the same, captured calls included`,
      ],
    },
    '`RolloutCollectionHelper`, `RolloutAggregationHelper`': {
      here: 'in Python, `collect`, `aggregate` and `run_examples` of `durable_rollouts.gym`',
      tests: [
        `${GYM}/long/python-collect.test.ts › collect, aggregate and run_examples give the results of the agents, and a failure to its row`,
        `${GYM}/python-fields.test.ts › are the fields of the commands, and the keys that matter to them`,
      ],
    },
    '`run_examples`, `examples`, `semaphore`': {
      here: 'a batch with an environment of kind `gym_agent`, and its `max_in_flight`',
      tests: [
        `${GYM}/collection/batch-request.test.ts › a row is a sample that an agent plays, its text as it was written`,
        `${ACTIVITIES}/run-agent.test.ts › starts its rollouts with a plan that names agent, row and attempt, and renders nothing`,
      ],
    },
    '`setup_server_client`, `head_server_config`, `ServerClient`, `BaseServerConfig`': {
      here: "`head_server`, which knows each agent's address",
      tests: [
        `${GYM}/collect-config.test.ts › the head server may be elsewhere`,
        `${ENVIRONMENTS}/gym-agent/agents.test.ts › is asked of the head server again when it is not where it was`,
      ],
    },
    '`_rollout_request_debug_summary`': {
      here: "a failure's line names task, rollout and agent of its `row`",
      tests: [
        `${GYM}/collection/routing.test.ts › is stamped at its end with the keys of its row, in upstream’s order`,
        `${GYM}/collection/routing.test.ts › has its class, its attempt and what happened, and neither reward nor response`,
      ],
    },
    '`resume_from_cache`, `_load_from_cache`': {
      here: "recorded decisions; either collector continues the other's work",
      tests: [
        `${GYM}/resume-goldens.test.ts › \${name}: the same rows are left, with the same attempts and summary`,
        `${INTEROP}/nemo-gym.test.ts › what \${first} began, \${then} ends`,
      ],
    },
    'failures beside the results': {
      here: "by the agent's classes, with attempts",
      tests: [
        `${GYM}/collection/routing.test.ts › goes to the failures where it names a class, even an empty one, and nowhere where it asks for that`,
        `${GYM}/collection/follower.test.ts › an answer whose reward is no use is a failure with all that it answered, so that it can still be scored`,
      ],
    },
    '`E2ERolloutCollectionConfig`': {
      here: '`collect-e2e`, from an installed Gym',
      tests: [
        `${GYM}/serve/prepare-data.test.ts › rows of all its datasets come agent by agent, repeated in place, each with its agent, in Python's JSON`,
        `${GYM}/serve/data-metrics.test.ts › are upstream’s, byte for byte: repeats, lists, texts, booleans, several data sets`,
        `${GYM}/serve/clean-folder.test.ts › names each file that upstream would download, whence to get it and where to put it`,
        `${GYM}/serve/prepare.test.ts › servers are started with a log, waited for, and stopped as Ctrl-C does it`,
        `${GYM}/serve/prepare-data.test.ts › a file that a cache of the Hub has is read there`,
        `${GYM}/serve/installed.test.ts › its configurations are found, its command prepares a benchmark without a network, and starts the servers`,
      ],
    },
    '`split`': {
      here: '`train`, `validation` or `benchmark`',
      tests: [
        `${GYM}/serve/prepare-data.test.ts › a split without data is an error that says what there is`,
      ],
    },
    '`reuse_existing_data_preparation`': {
      here: 'takes the prepared rows that are there',
      tests: [
        `${GYM}/serve/prepare.test.ts › prepared data is used again only where it is asked for`,
      ],
    },
    '`RolloutAggregationConfig`, `RolloutAggregationHelper`; `aggregate_rollouts`, `ng_aggregate_rollouts`':
      {
        here: '`aggregate`, recorded shards',
        tests: [
          `${GYM}/aggregate.test.ts › upstream’s recorded shards: same files, same merge, same metrics but for pass@k, which upstream leaves to servers`,
          `${GYM}/cli/gym-metrics.test.ts › shards that each number their tasks from 0 are an error with the total, and nothing is written`,
        ],
      },
    '`input_glob`, `_expand_input_glob`': {
      here: "Python's patterns, separated by commas",
      tests: [
        `${GYM}/metrics/text.test.ts › globs are Python’s: each sorted, each file once, hidden files only by name`,
      ],
    },
    '`merge_shards`': {
      here: 'the merged results',
      tests: [
        `${GYM}/aggregate.test.ts › four shards come out as the whole does, byte for byte, merged file included`,
      ],
    },
    '`_call_aggregate_metrics`: `/aggregate_metrics` of each agent': {
      here: 'its server gets the `results` of its `rows`; the answer goes beside `output_fpath`',
      tests: [
        `${GYM}/agent-answer.test.ts › it is sent the results in order, without what is heavy, and its answer is taken as it is`,
        `${GYM}/agent-answer.test.ts › a server that \${what} has no entry, and no other metrics stand in its place`,
      ],
    },
    'means, spreads, pass@k, majority@k': {
      here: 'to the last digit',
      tests: [
        `${GYM}/metrics/exact.test.ts › are upstream’s to the last digit: means, spreads, pass@k, majority@k`,
      ],
    },
    'reward profile': {
      here: '`profile`, recorded files',
      tests: [
        `${GYM}/reward-profile.test.ts › \${name}: both files hold what upstream’s do, or none is written`,
      ],
    },
    'captured model calls': {
      here: 'merged into results, recorded cases',
      tests: [`${GYM}/capture/attach.test.ts › is upstream's: \${golden['name'] as string}`],
    },
    'servers of the gymnasium kind': {
      here: 'kind `gymnasium`: turns and tokens are durable',
      tests: [
        `${LONG}/gymnasium.test.ts › loses its worker, then its servers with all their sessions: no step is played twice in a session, all are closed, and the rewards are right`,
      ],
    },
    '`upload_rollouts` and `upload_rollouts_to_wandb`': {
      here: "results and metrics to MLflow and W&B, with upstream's run, names and files",
      tests: [
        `${GYM}/upload/mlflow.test.ts › is one run with configuration, metrics and results, and ends`,
        `${GYM}/upload/wandb.test.ts › is one run with configuration, results and metrics, and ends`,
        `${GYM}/cli/gym-metrics.test.ts › uploads its metrics to the MLflow server that is named`,
      ],
    },
    '`rollout_collection_driver`, `gym eval reverify`, rebuilt responses of `token_id_capture`': {
      here: 'missing: the driver is refused by name, the others are without effect',
      tests: [
        `${GYM}/collect-config.test.ts › a driver is Python and refused`,
        `${GYM}/collect-config.test.ts › servers, variables and global keys are accepted, and the idle ones said once`,
      ],
    },
  },
};
