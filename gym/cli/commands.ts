import { isNumber } from '../json/exact.js';
import type { z } from 'zod';
import type { Command } from '../../src/platform/command.js';
import type { Flags } from '../config/flags.js';
import { AGGREGATE_FLAGS, PROFILE_FLAGS, RUN_FLAGS } from '../config/flags.js';
import {
  E2ERolloutCollectionConfig,
  RewardProfileConfig,
  RolloutAggregationConfig,
  RolloutCollectionConfig,
} from '../config/schemas.js';

const FIELDS =
  'Fields, as +field=value, in a YAML file of +config_paths=[FILE], or by flags of Gym:';

/** NeMo Gym's collections as commands of `temporal-rollout`. */
export const GYM_COMMANDS: Record<string, Command> = {
  collect: {
    usage: `temporal-rollout collect [--config FILE] +key=value …

Collects rollouts of NeMo Gym's agent servers: the arguments, the input files and the output files of
\`ng_collect_rollouts\` and \`gym eval run --no-serve\`, such as
  temporal-rollout collect +agent_name=simple_agent +input_jsonl_fpath=in.jsonl +output_jsonl_fpath=out/results.jsonl \\
    +num_repeats=4 +num_samples_in_parallel=64
Each row has a journal: after any crash +resume_from_cache=true continues. Without --config the command starts a Temporal
dev server with its Web UI and a worker, with files in their own folder below .rollouts, and ends them at its end.

--config FILE           a deployment's temporal.yaml: its server, its store and its workers play the rows; or, as in
                        Gym, one of Gym's configuration files
--gym-environment NAME  its environment of kind gym_agent, if it has several
--batch-id ID           id of the batch; default: named after the output file and the time
--run-timeout 30m       limit of one /run; default: the environment's (4h)
--max-seq-len N         tokens of a conversation, where a deployment's policy answers the agents (32768)
--rollout-timeout 7d    limit of a row, including all attempts and waits
--folder DIR            folder of the started server's files, instead of one below .rollouts
--replace               cancels a deployment's batch that still plays an earlier collection into the same file

NEMO_GYM_MAX_ROLLOUT_ATTEMPTS (default 3) is how often a collection tries a row, and how many collections may fail it: rows
that an outage failed are played again by +resume_from_cache=true.
The exit code is 0 when every row has a result, 1 when rows failed (0 with +route_failures_to_sidecar=true) or there is no
result, 2 when the arguments are not understood, 130 when it was interrupted.

${FIELDS}
${fieldsUsage(RolloutCollectionConfig, RUN_FLAGS)}`,
    load: async () => (await import('./collect.js')).collectCommand,
  },
  'collect-e2e': {
    usage: `temporal-rollout collect-e2e [--config FILE] [--serve-command TEXT] +split=S +config_paths=[…] +key=value …

Collects rollouts for the datasets of a split (train, validation, benchmark) that the agents of Gym's configuration files have:
the arguments and files of \`ng_e2e_collect_rollouts\` and \`gym eval run\`, such as
  temporal-rollout collect-e2e --benchmark aime24 --model-type vllm_model --split benchmark -o out/results.jsonl
  temporal-rollout collect-e2e '+config_paths=[env.yaml,model.yaml]' +split=validation +output_jsonl_fpath=out/results.jsonl
Rows go to out/results/preprocessed_datasets/validation.jsonl, their statistics to validation_metrics.json beside it. A
benchmark's prepare script is run, without a network, where Gym is installed (its \`gym\` is on the PATH, or in the .venv of
this folder or of a search directory); log: out/results/prepare.log. Files that are still missing are named, with how to
get them, not downloaded. The command uses the head server (+head_server={host: H, port: P}, default 127.0.0.1:11000) and
every server that it knows. If they do not answer, it starts them, and ends them at its end; log: out/results/servers.log.

--serve-command TEXT  starts the servers, by bash; default: the installed \`gym env start\` with the same arguments
--no-serve            starts none
--serve-timeout 30m   time for all of them to answer
Every option of temporal-rollout collect.

The exit codes are those of temporal-rollout collect.

${FIELDS}
${fieldsUsage(E2ERolloutCollectionConfig, RUN_FLAGS)}`,
    load: async () => (await import('./collect.js')).collectE2ECommand,
  },
  aggregate: {
    usage: `temporal-rollout aggregate +input_glob=PATTERN[,PATTERN…] +output_jsonl_fpath=FILE [+merge_shards=false]
                           [--answer-key FIELD] [--subset-key FIELD]

NeMo Gym's \`ng_aggregate_rollouts\`: reads the result files (JSONL) that match, and writes them as one, FILE, sorted by task
and rollout, and their metrics beside it, <FILE's stem>_aggregate_metrics.json. Repeated results count once. Lines that are
no result, and FILE from an earlier run, are reported and left out. Different results of one task and rollout are an error,
as of shards that each number their tasks from 0. An agent's metrics come from its server's /aggregate_metrics,
found through the head server (default 127.0.0.1:11000, +head_server.port=N). If there is no server, or it has no such
path, they are computed here: upstream's default metrics, pass@k of the reward, majority@k of the answers in field
--answer-key, and all of these for each value of --subset-key. If a server fails, the exit code is 1. It needs no Temporal
server.

${FIELDS}
${fieldsUsage(RolloutAggregationConfig, AGGREGATE_FLAGS)}`,
    load: async () => (await import('./aggregate.js')).aggregateCommand,
  },
  profile: {
    usage: `temporal-rollout profile +materialized_inputs_jsonl_fpath=FILE +rollouts_jsonl_fpath=FILE
                         [++allow_partial_rollouts=true]

NeMo Gym's \`ng_reward_profile\`: from the materialised inputs and the results of a collection, statistics per task,
<stem>_reward_profiling.jsonl, and per agent, <stem>_agent_metrics.json. No Temporal server is needed.

${FIELDS}
${fieldsUsage(RewardProfileConfig, PROFILE_FLAGS)}`,
    load: async () => (await import('./profile.js')).profileCommand,
  },
};

/** A line for each field of a configuration: its override, its flags, its default and its meaning. */
function fieldsUsage(schema: z.ZodObject<Record<string, z.ZodType>>, flags: Flags): string {
  const fields = Object.entries(schema.shape);
  const names = fields.map(([field]) => [`+${field}`, ...flagsOf(field, flags)].join(', '));
  const width = Math.max(...names.map(({ length }) => length));
  return fields
    .map(([field, own], index) => {
      const name = (names[index] ?? field).padEnd(width);
      return `${name}  ${own.description ?? ''} (${defaultOf(own)})`;
    })
    .join('\n');
}

function flagsOf(field: string, flags: Flags): string[] {
  const all = Object.entries(flags);
  return all.flatMap(([name, flag]) => ('field' in flag && flag.field === field ? [name] : []));
}

function defaultOf(schema: z.ZodType): string {
  const parsed = schema.safeParse(undefined);
  if (!parsed.success) return 'required';
  const { data } = parsed;
  return `default ${isNumber(data) ? data.text : JSON.stringify(data)}`;
}
