/**
 * What of NeMo RL is here, and the tests that show it: the tables of docs/nemo.md, which `UPDATE_SCHEMAS=1` writes anew
 * (test/semantics.test.ts).
 */
import type { Tests } from './promises.js';
import { E2E, ENVIRONMENTS } from './promises.js';

const ACTIVITIES = 'test/activities';
const MODEL = 'test/model';
const INTEROP = 'test/interop';
const LONG = 'test/long';
const ENGINE = 'test/generation';

interface Feature {
  here: string;
  tests: Tests;
}

/** By table, then by the names of upstream. */
export type Features = Record<string, Record<string, Feature>>;

export const NEMO_FEATURES: Features = {
  'nemo-rollouts': {
    '`run_multi_turn_rollout`': {
      here: 'semantics `nemo-rl-sync`: recorded runs of 2025-06',
      tests: [
        `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
        `${ACTIVITIES}/recorded-runs/exceptions.test.ts › there are 400 recorded cases`,
        `${ACTIVITIES}/recorded-runs/exceptions.test.ts › \${count} cases are an exception, because \${reason}`,
      ],
    },
    '`run_async_multi_turn_rollout`': {
      here: 'semantics `nemo-rl`: recorded runs of 2026-08; `nemo-rl-async`: of 2025-06',
      tests: [
        `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
        `${E2E}/recorded-runs.test.ts › there are thirty-three`,
        `${E2E}/recorded-runs.test.ts › golden.name`,
      ],
    },
    '`run_sample_multi_turn_rollout`': {
      here: 'workflow `rollout`, also without a batch',
      tests: [
        `${LONG}/single-rollout.test.ts › is a batch of one: it returns the batch result, and its files hold its row`,
      ],
    },
    '`generate_responses`, `generate_responses_async`': {
      here: 'activity `generate`: token ids in and out, logprobs, greedy',
      tests: [
        `${ACTIVITIES}/generate-turn.test.ts › is in the journal when the activity reports it, and is reported as totals`,
        `${ACTIVITIES}/generate-turn.test.ts › greedily is asked for with temperature 0`,
        `${ENGINE}/vllm-service.test.ts › hands on the recorded ids, logprobs and text of capture \${number}`,

        `${ACTIVITIES}/generate-turn.test.ts › in the middle keeps what had streamed in`,
        `${ENGINE}/vllm-service.test.ts › arrives whole through network packets of 7 bytes`,
      ],
    },
    '`async_generate_response_for_sample_turn`': {
      here: 'one turn of the activity',
      tests: [
        `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
        `${ACTIVITIES}/generate-turn.test.ts › without room is empty with finish length, and no request is made`,
      ],
    },
    '`RolloutManager`': {
      here: 'workflow `rolloutBatch`',
      tests: [
        `${E2E}/recovery-worker.test.ts › has the rows and the metrics of an undisturbed run`,
        `${LONG}/single-rollout.test.ts › is a batch of one: it returns the batch result, and its files hold its row`,
      ],
    },
    '`calculate_rewards`': {
      here: 'activity `step`; environments see role and content',
      tests: [
        `${ACTIVITIES}/step-environment.test.ts › shows the environment role and content only, its state, and a key that every attempt shares`,
        `${ACTIVITIES}/step-environment.test.ts › because no worker has its environment is final`,
      ],
    },
    '`Environments`: several in one batch': {
      here: 'by `task_name` of each sample',
      tests: [
        `${E2E}/mixed.test.ts › waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment`,
      ],
    },
    'observations that do not fit': {
      here: 'ids are cut, content is not',
      tests: [
        `${MODEL}/observation-limit.test.ts › leaves no ids and truncates`,
        `${MODEL}/observation-limit.test.ts › under nemo-rl-sync fails with upstream’s text`,
        `${ACTIVITIES}/play-turns.test.ts › is where the log is full: the observation’s ids are cut, its content is not`,
      ],
    },
    'stop strings and metadata from the environment': {
      here: 'kept or overwritten as each loop does it',
      tests: [
        `${MODEL}/trajectory-turns.test.ts › null from the environment keeps the list, but under nemo-rl-sync it overwrites`,
        `${MODEL}/trajectory-turns.test.ts › under \${semantics} it is what the environment gave last; null keeps it`,
      ],
    },
    'sums of rewards, also named ones': {
      here: "float32 where upstream's are",
      tests: [
        `${MODEL}/trajectory-turns.test.ts › nemo-rl-async and nemo-rl round each step to float32 and add in double`,
        `${MODEL}/trajectory-turns.test.ts › nemo-rl-sync adds in float32 too`,
        `${MODEL}/trajectory-turns.test.ts › named components are float32 where upstream’s are, and so is what a step is worth`,
      ],
    },
    'metrics of a batch': {
      here: 'the same names and values ([metrics](metrics.md))',
      tests: [
        `${MODEL}/metrics.test.ts › are one flat object of finite numbers, and no other names than these`,
        `${MODEL}/metrics.test.ts › natural_termination_rate counts truncation under nemo-rl-sync only`,
      ],
    },
    '`overlong_filtering`': {
      here: '`overlong: mask`, recorded under `nemo-rl`',
      tests: [
        `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › golden.name`,
        `${MODEL}/observation-limit.test.ts › truncates its turn under standard and nemo-rl, and nothing is cut`,
      ],
    },
    'a lost process': {
      here: 'the journal has each turn',
      tests: [
        `${E2E}/recovery-worker.test.ts › generates no turn again that was journalled when the worker was killed`,
        `${E2E}/recovery-worker.test.ts › has the rows and the metrics of an undisturbed run`,
      ],
    },
  },
  'nemo-arguments': {
    '`policy_generation`': {
      here: '`generation.service` of the request: a service of temporal.yaml',
      tests: [
        `${ACTIVITIES}/generate-turn.test.ts › is asked for with everything explicit`,
        `${ACTIVITIES}/generate-turn.test.ts › because no worker has the service is retried: another one may`,
      ],
    },
    '`input_batch`, `batch`': {
      here: '`samples` of the request; unknown columns return in the rows',
      tests: [
        `${ACTIVITIES}/read-samples.test.ts › come back line by line, as they were written`,
        `${MODEL}/sample.test.ts › keeps unknown columns untouched, whatever they hold`,
      ],
    },
    '`initial_sample_state`, `sample_idx`': {
      here: 'a sample, and its `idx` ([which](#semantics))',
      tests: [
        `${MODEL}/sample.test.ts › may have all of upstream’s columns, stop_strings also null`,
        `${LONG}/single-rollout.test.ts › renders its prompt by the service and keeps what the sample brought`,
      ],
    },
    '`generation_input_data`, `input_lengths`, `sample_message_log`': {
      here: 'the ids of the log, without padding',
      tests: [
        `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
        `${ACTIVITIES}/play-turns.test.ts › between two turns costs neither: the next one continues with the second`,
      ],
    },
    '`sample_stop_strings`': {
      here: '`stop_strings` of the sample or the environment',
      tests: [
        `${MODEL}/trajectory-turns.test.ts › under \${semantics} the environment’s list replaces the sample’s`,
        `${ACTIVITIES}/stop-strings.test.ts › has the stop string in its content where the engine cuts it off`,
      ],
    },
    '`tokenizer`, `TokenizerType`': {
      here: "the engine's own",
      tests: [
        `${ACTIVITIES}/render-prompt.test.ts › gives message k the ids that rendering messages 0 to k adds, the last one the generation prompt`,
        `${ACTIVITIES}/render-prompt.test.ts › is used as it is, logprobs included, without a request to the service`,
      ],
    },
    '`task_to_env`': {
      here: "`environments` of temporal.yaml, by the sample's `task_name`",
      tests: [
        `${ACTIVITIES}/step-environment.test.ts › because no worker has its environment is final`,
        `${E2E}/mixed.test.ts › waits for its Python server, outlives kills of it, of the grader and of sandboxes, and gives metrics by environment`,
      ],
    },
    '`max_seq_len`': {
      here: 'the same setting',
      tests: [
        `${ACTIVITIES}/generate-turn.test.ts › gets the whole log as its prompt, and at most what max_seq_len leaves`,
        `${MODEL}/observation-limit.test.ts › leaves no ids and truncates`,
      ],
    },
    '`max_rollout_turns`': {
      here: 'the same setting; default 100, not 999,999',
      tests: [
        `${ACTIVITIES}/play-turns.test.ts › is where the turn limit is`,
        `${MODEL}/stop-rules.test.ts › with max_rollout_turns 0 nothing is generated at all`,
      ],
    },
    '`greedy`': {
      here: '`generation.greedy`',
      tests: [`${ACTIVITIES}/generate-turn.test.ts › greedily is asked for with temperature 0`],
    },
    '`include_logprobs`': {
      here: '`generation.include_logprobs`',
      tests: [
        `${ENGINE}/vllm-service.test.ts › leaves out logprobs, stops and seed when there are none`,
      ],
    },
    '`DatumSpec`, `LLMMessageLogType`': {
      here: 'a sample and a row',
      tests: [
        `${MODEL}/sample.test.ts › may have all of upstream’s columns, stop_strings also null`,
        `${E2E}/recorded-runs.test.ts › golden.name`,
      ],
    },
    '`BatchedDataDict`, `FlatMessagesType`, `batched_message_log_to_flat_message`': {
      here: 'files of rows, `to_arrays` ([training data](training-data.md))',
      tests: [
        `${ACTIVITIES}/recorded-runs/suite-of-activities.ts › their rows have equal arrays as lines and as Arrow`,
        `${ENVIRONMENTS}/python.test.ts › passes its own tests`,
      ],
    },
    '`get_keys_from_message_log`': {
      here: 'role and content, for environments',
      tests: [
        `${ACTIVITIES}/step-environment.test.ts › shows the environment role and content only, its state, and a key that every attempt shares`,
      ],
    },
    '`GenerationInterface`, `GenerationDatumSpec`, `GenerationOutputSpec`': {
      here: 'the wire of an [engine](engines.md)',
      tests: [
        `${ENGINE}/vllm-service.test.ts › hands on the recorded ids, logprobs and text of capture \${number}`,
        `${ENGINE}/vllm-service.test.ts › sends every sampling parameter, so that no server default applies`,
      ],
    },
    '`EnvironmentInterface`, `EnvironmentReturn`': {
      here: 'the protocol of [environments](environments.md), with the same five fields',
      tests: [
        `${ENVIRONMENTS}/http.test.ts › sends the logs, the metadata and the headers of the protocol`,
        `${ENVIRONMENTS}/http.test.ts › takes an answer without stop strings and without extracted answers`,
      ],
    },
  },
  'nemo-generation': {
    '`VllmGeneration`, `VLLMGeneration`': {
      here: 'vLLM servers over HTTP, several replicas',
      tests: [
        `${INTEROP}/batch.test.ts › whose worker is killed in its midst has the rows of the undisturbed one`,
        `${INTEROP}/batch.test.ts › that is paused in its midst with mode=\${mode} waits, and then has the rows of the undisturbed one, at the first attempt`,
        `${INTEROP}/engine-kill.test.ts › in its midst, and started again minutes later, has the rows of the undisturbed one`,
        `${E2E}/replicas.test.ts › keeps rollouts on one of them, but for those that one has no room for, and uses both`,
      ],
    },
    'logprobs of the sampled tokens': {
      here: 'equal to what torch computes',
      tests: [
        `${INTEROP}/logprobs.test.ts › are in rows those that torch computes of the distribution at the temperature`,
      ],
    },
    'weight updates of `vllm_backend`, `VLLMBackend`': {
      here: 'workflow `policy`',
      tests: [
        `${ACTIVITIES}/bring-replica.test.ts › goes through every phase, recorded before the first of them and behind the last`,
        `${INTEROP}/policy.test.ts › mode \${mode}, wire \${wire}: each token has the version whose weights torch finds it sampled with`,
      ],
    },
    'groups as they finish, for an asynchronous trainer': {
      here: 'workflow `rolloutStream`',
      tests: [`${E2E}/stream.test.ts › delivers step after step, each sample once an epoch`],
    },
    'multi-turn chat templates': {
      here: 'rendered by the engine',
      tests: [
        `${INTEROP}/chat.test.ts › is sent the engine’s own rendering at each turn, cut anywhere or not`,
      ],
    },
  },
  'nemo-environments': {
    'sliding puzzle (`SlidingPuzzleEnvironment`)': {
      here: 'kind `sliding_puzzle`, recorded games',
      tests: [
        `${ENVIRONMENTS}/sliding-puzzle/environment.test.ts › plays \${name} as upstream did`,
      ],
    },
    'maths (`MathEnvironment`): math-verify, DAPO, multiple choice': {
      here: 'kind `math`, recorded verdicts',
      tests: [
        `${ENVIRONMENTS}/math/goldens.test.ts › the verdicts of \${name}`,
        `${ENVIRONMENTS}/math/goldens.test.ts › the steps of \${name}`,
        `${ENVIRONMENTS}/math/pure-verifiers.test.ts › judges as upstream’s in \${name}`,
      ],
    },
    'code that runs between tags (`CodeEnvironment`)': {
      here: 'kind `code`, in a sandbox, recorded sessions',
      tests: [
        `${ENVIRONMENTS}/code/goldens.test.ts › \${name} answers as upstream did`,
        `${ENVIRONMENTS}/code/escapes.test.ts › no attempt gets through`,
      ],
    },
    'code similarity': {
      here: 'kind `code_jaccard`, recorded scores',
      tests: [`${ENVIRONMENTS}/code-jaccard/code-jaccard.test.ts › is upstream’s in \${name}`],
    },
    'VLM rewards (`VLMEnvironment`)': {
      here: 'kind `vlm`, recorded rewards',
      tests: [
        `${ENVIRONMENTS}/vlm/goldens.test.ts › the step of \${file}`,
        `${ENVIRONMENTS}/vlm/goldens.test.ts › the rewards of \${file}`,
      ],
    },
    'pictures in prompts and observations': {
      here: 'vLLM with `--enable-scale-out`',
      tests: [
        `${INTEROP}/pictures.test.ts › 32 greedy rollouts whose worker is killed have the rows of undisturbed ones, and first turns that are those of /v1/chat/completions`,
        `${INTEROP}/pictures.test.ts › 32 sampled rollouts whose worker is killed have the logprobs that torch computes of ids and pictures`,
        `${INTEROP}/pictures.test.ts › after an update of the weights are seen with the new ones`,
        `${ACTIVITIES}/image-prompts.test.ts › has a row with the image as the sample has it`,
        `${ACTIVITIES}/image-prompts.test.ts › is refused where the service is sent token ids alone, and under prompt_format raw`,
      ],
    },
    'BM25 retriever (`RetrieverTool`)': {
      here: 'kind `retriever`, recorded ranks',
      tests: [
        `${ENVIRONMENTS}/retriever/retriever.test.ts › ranks as upstream’s does in \${name}, ties by place`,
        `${ENVIRONMENTS}/retriever/retriever.test.ts › answers as upstream’s does`,
        `${ENVIRONMENTS}/retriever/corpora.test.ts › may have any column of texts`,
        `${ENVIRONMENTS}/retriever/corpora.test.ts › of the Hub is found in its cache by name: a repository, a folder or a file`,
      ],
    },
    'reward models': {
      here: 'kind `reward_model`, recorded scores',
      tests: [
        `${ENVIRONMENTS}/reward-model/reward-model.test.ts › is sent whole conversations as they are, and its scores are the rewards`,
      ],
    },
    'calculator with several turns': {
      here: 'kind `calculator`, recorded steps',
      tests: [
        `${ENVIRONMENTS}/calculator/calculator.test.ts › answers as upstream’s does in \${name}`,
      ],
    },
    'an environment of your own': {
      here: 'over HTTP, as a module, in Python',
      tests: [
        `${ENVIRONMENTS}/http.test.ts › sends the logs, the metadata and the headers of the protocol`,
        `${ENVIRONMENTS}/user-module.test.ts › answers one sample at a time in TypeScript`,
        `${ENVIRONMENTS}/python.test.ts › serves a class to kind http, and ends with SIGTERM`,
      ],
    },
    'NeMo Gym inside of NeMo RL': {
      here: 'kind `gym_agent`, recorded results',
      tests: [
        `${ENVIRONMENTS}/gym-agent/recorded-results.test.ts › \${name}: \${replies.length - failed} rows, \${failed} failures\${fate}`,
        `${LONG}/gym-agent.test.ts › whose worker and whose server are killed has every row once, with what became of it`,
      ],
    },
    'effort levels, reward penalties, masked samples': {
      here: 'settings of kind `gym_agent`, recorded outcomes',
      tests: [
        `${MODEL}/agent-shaping.test.ts › change the reward of the row, which keeps the own one beside it`,
        `${MODEL}/agent-shaping.test.ts › win over effort levels, and the row tells both`,
        `${MODEL}/agent-shaping.test.ts › may train on answers with mask_sample as on any`,
        `${ENVIRONMENTS}/gym-agent/recorded-results.test.ts › \${name}: \${replies.length - failed} rows, \${failed} failures\${fate}`,
      ],
    },
  },
};
