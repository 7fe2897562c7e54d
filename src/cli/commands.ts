import { GYM_COMMANDS } from '../../gym/cli/commands.js';
import { DEMO_COMMANDS } from '../../lab/demos/commands.js';
import { SIMULATOR_COMMANDS } from '../../simulator/commands.js';
import type { Command } from '../platform/command.js';

export const COMMANDS: Partial<Record<string, Command>> = {
  ...GYM_COMMANDS,
  ...DEMO_COMMANDS,
  ...SIMULATOR_COMMANDS,
  start: {
    usage: `temporal-rollout start --input-file FILE [--id ID] [--set KEY=VALUE …] [--restart] [--watch] [--config FILE]
temporal-rollout start --like BATCH …

Starts a batch with the request in FILE (JSON), or with that of another batch, whose samples the store has: --like BATCH.
--set changes a field of it, such as generation.temperature=0.7; VALUE is JSON, or else a text. ID names this request
permanently: starting it again joins the batch while it runs, and continues it afterwards; another request is refused.
Without --id it gets a new id, which is printed.
--restart plays a batch again that has ended, for example with another reward: the worker removes what its rollouts have
played (their journals), the groups that were handed out, and metrics.json. Request and samples stay. The rows stay until
new ones take their place at the end. A batch that runs is refused.
--watch shows its board until it has ended, then its result.
The exit code is 0 if the batch runs or, with --watch, has a result, even after a stop; 1 if it was refused or failed (such
as TooFewValid); 2 if the arguments are wrong; 130 after Ctrl-C.
The Temporal server and the task queue come from the stack that runs in this folder (up), unless TEMPORAL_ADDRESS names
another server; else from ./temporal.yaml if it exists, else from TEMPORAL_* variables and temporal.toml, else they are
127.0.0.1:7233 and "rollouts". This also holds for watch, stop and result.`,
    load: async () => (await import('./start.js')).startCommand,
  },
  fork: {
    usage: `temporal-rollout fork BATCH/ROW-REPEAT --at turn:N|token:N [--repeats N] [--id ID] [--set KEY=VALUE …]
                      [--train-prefix] [--watch] [--config FILE]

Starts a batch whose rollouts continue this one: they begin with what it has played, ids, rewards and state included, and
go on from there, with the request of its batch, which --set changes as in start.

  --at turn:3     turns 0 to 2 stay, and turn 3 is sampled anew; of an agent, its calls
  --at token:1250 the first 1,250 tokens that the policy sampled stay, counted over all turns as \`segments\` of rows do.
                  In the middle of a turn, the turn goes on after the last of them. Agents have no such place
  --repeats N     rollouts (1)
  --train-prefix  the tokens that stay train, too; the same weights must serve

An environment with sessions is stepped again, up to there; where it says something else, the rollout fails as
ReplayDiffers. A program begins again, and is answered from the journal up to the call. The exit code is that of start.`,
    load: async () => (await import('./start.js')).forkCommand,
  },
  watch: {
    usage: `temporal-rollout watch BATCH [--config FILE]

Shows the live board of any batch until it has ended, then its result. Ctrl-C leaves the batch as it is.
The exit code is 0 if the batch has a result, 1 if it failed, 130 after Ctrl-C.`,
    load: async () => (await import('./batch.js')).watchCommand,
  },
  stop: {
    usage: `temporal-rollout stop BATCH [--config FILE]
temporal-rollout stop BATCH/ROW-REPEAT [--config FILE]

Ends a running batch and keeps its results so far: its rollouts end as stopped, and its files are written. Or ends one of
its rollouts, as stopped; the batch goes on.`,
    load: async () => (await import('./batch.js')).stopCommand,
  },
  result: {
    usage: `temporal-rollout result BATCH [--json] [--config FILE]

Waits until a batch has ended and prints its metrics, counts and files, or the whole result as JSON. If its newest start
was refused, it prints why, and the result before that. The exit code is 1 if the batch failed.`,
    load: async () => (await import('./batch.js')).resultCommand,
  },
  show: {
    usage: `temporal-rollout show BATCH [--worst N] [--sort reward|tokens|turns|wall] [--reverse] [--limit N] [--failed]
                           [--where CONDITION] [--follow] [--json] [--config FILE]
temporal-rollout show BATCH/ROW [--json] [--tokens] [--config FILE]
temporal-rollout show BATCH/ROW-REPEAT [--turns FIRST-LAST] [--call N] [--tokens] [--follow] [--json] [--config FILE]

Shows a batch's rollouts from the store that temporal.yaml names: while it runs, afterwards, and without server and
worker. BATCH lists them, each with its reason: the failure, the last message of environment or policy, or the fault that
it waits on. BATCH/ROW shows those of one sample side by side. BATCH/ROW-REPEAT shows one: its messages, the reward, mean
logprob and end of each turn, interrupted generations, attempts with their causes, and faults, with their times. An agent
that asks for answers has a line for each of its calls: the call that it continues, why it branches, the tools that were
called, and whether it trains. --call N shows one of them whole.

--worst N shows the N lowest rewards, then failures if there are fewer; it excludes --sort, --reverse, --limit and --failed.
--sort has the largest first, --reverse the smallest. A CONDITION such as 'reward<0.5 and turns>=3' uses reward, tokens (or
length), turns, wall (seconds), attempts, faults, row, repeat, ended, task and failure; a value with " and " needs quotes.
Only a rollout with a valid end has a reward. --tokens adds ids and logprobs. --follow shows new output. --json prints a
line for each rollout. Output longer than the terminal goes through PAGER (less).`,
    load: async () => (await import('./show/show.js')).showCommand,
  },
  diff: {
    usage: `temporal-rollout diff A B [--json] [--config FILE]

Says where two batches part, or two rollouts (BATCH/ROW-REPEAT), from the store that temporal.yaml names, without server
and worker. Rollouts are paired by the content of their sample and by repeat. Each pair that differs is a line, --json: of
JSON: the first id that differs, with its turn; the first text; the reward; why they ended. The exit code is 1 where they
differ, 0 where nothing does, 2 if they could not be compared.`,
    failure_code: 2,
    load: async () => (await import('./diff.js')).diffCommand,
  },
  list: {
    usage: `temporal-rollout list [--running] [--limit N] [--json] [--config FILE]

Lists batches and streams, the newest first: those of the store that temporal.yaml names, and those that the Temporal
server has. Each has its state, its start and the counts of its rollouts. "no result" means that the store has none and
the server does not have it: starting its id again continues it. Failures are the rows of failures.jsonl, also of
rollouts that a stop kept from starting, which show counts as not started.

--limit N shows N of them (default 20), --running only those that run, --json a line of JSON for each. The exit code is 1
if the server does not answer: the list has what the store knows.`,
    load: async () => (await import('./list.js')).listCommand,
  },
  report: {
    usage: `temporal-rollout report ID [ID] [-o FILE] [--steps FIRST-LAST] [--max-size MB] [--config FILE]

Writes rollouts as a page for a browser: a batch, a stream, one sample (BATCH/ROW), a rollout (BATCH/ROW-REPEAT), or two
of them to compare. It reads the store that temporal.yaml names, while they run and afterwards, without server and worker.
FILE (default ID.html) needs no network and nothing beside it; what is larger than MB (default 20) goes on in FILE-2.html
and so on. --steps takes those of a stream's closed steps.`,
    load: async () => (await import('./report.js')).reportCommand,
  },
  serve: {
    usage: `temporal-rollout serve [--port N] [--config FILE]

Shows rollouts in a browser while they run, and afterwards: of all batches and streams in the store that temporal.yaml
names, without server and worker. It serves 127.0.0.1 alone, at port N (default 8234), and changes nothing. The address
that it prints has a token, which .rollouts/viewer-token beside FILE keeps: removing that file makes another one.`,
    load: async () => (await import('./serve.js')).serveCommand,
  },
  export: {
    usage: `temporal-rollout export BATCH [--step N] --to FILE [--config FILE]

Writes the valid rollouts of a batch that has ended, or of step N of a stream, into FILE: sequences in Arrow if its name
ends with .arrow, a line of JSON for each if it ends with .jsonl. It reads the results in the store that temporal.yaml
names, of any release, without server and worker. FILE has all of them, or is not written.`,
    load: async () => (await import('./export.js')).exportCommand,
  },
  worker: {
    usage: `temporal-rollout worker [--config FILE]

Runs the roles that FILE (default ./temporal.yaml) names, until SIGINT or SIGTERM.`,
    load: async () => (await import('./worker.js')).workerCommand,
  },
  policy: {
    usage: `temporal-rollout policy status [--service NAME] [--config FILE]
temporal-rollout policy publish --version N --adapter PATH [--quorum K] [--order all|rolling] …
temporal-rollout policy publish --version N --path CHECKPOINT [--mode keep|abort|wait] [--cache reset|keep]
                                [--order all|rolling] [--quorum K] [--pause-limit 10m] [--input FILE]
                                [--holder NAME [--incarnation ID] [--take-over]] …
temporal-rollout policy release --holder NAME
temporal-rollout policy begin --holder NAME [--incarnation ID] [--take-over] [--version N] [--checkpoint PATH] [--groups N] …
temporal-rollout policy alive --ticket TICKET --done N
temporal-rollout policy finish --ticket TICKET --sent 0,1
temporal-rollout policy abandon --ticket TICKET --touched 0,1
temporal-rollout policy attach --version N --checkpoint PATH
temporal-rollout policy sleep --holder NAME [--incarnation ID] [--level 1] [--until 10m]
temporal-rollout policy wake [--tags weights]

The weights of a generation service (default "default"): the state of each replica, or new weights for all. FILE has
the fields of the update as JSON, for example a probe; options override them. On a terminal publish shows each
replica's progress. A trainer that names itself (--holder) holds the service: others are refused until release, or
five minutes after its last sign of life. begin, alive, finish, abandon and attach are for a trainer that sends weights to
the engines itself, sleep and wake for one that needs their memory (docs/transfers.md); they print the answer as JSON. The
exit code is 1 if the update fails.`,
    load: async () => (await import('./policy.js')).policyCommand,
  },
  engine: {
    usage: `temporal-rollout engine list [--service NAME] [--config FILE]
temporal-rollout engine join --url URL [--control-url URL] [--instance ID] …
temporal-rollout engine drain --url URL [--drain-limit 1m] [--force] …
temporal-rollout engine leave --url URL [--force] …
temporal-rollout engine attend --url URL [--drain-limit 1m] … -- COMMAND …

Lists, adds and removes engines of a generation service (default "default"), beside those of temporal.yaml. Its \`allow\`
says where they may be. An engine that joins is examined and gets the current weights before it serves. An engine that
drains gets no new request; requests that still run at the limit continue on other engines. attend starts COMMAND, such
as vllm serve, makes the engine at URL join when it is healthy, passes signals on, drains it at SIGTERM, and makes it
leave at its end.`,
    load: async () => (await import('./engine.js')).engineCommand,
  },
  stream: {
    usage: `temporal-rollout stream status --id STREAM [--watch] [--config FILE]
temporal-rollout stream stop --id STREAM [--config FILE]
temporal-rollout stream forget --id STREAM --through STEP [--config FILE]

Shows a stream's state, ends it, or deletes delivered steps up to STEP. --watch shows the table on a terminal until the
stream has ended.`,
    load: async () => (await import('./stream.js')).streamCommand,
  },
  store: {
    usage: `temporal-rollout store migrate [--config FILE]

Creates the tables of a store in PostgreSQL, or brings them to this release's version. Workers refuse an older or newer
schema.`,
    load: async () => (await import('./store.js')).storeCommand,
  },
  step: {
    usage: `temporal-rollout step --input FILE [--environment NAME] [--answer TEXT] [--semantics NAME] [--config FILE]
temporal-rollout step --input FILE --function MODULE:NAME [--answer TEXT] [--columns COLUMN=NAME,…]

Tries an environment or a reward: plays one step per line of FILE and prints a line for each, {observation, reward,
terminated, metadata, next_stop_strings, answer} or {"error": {type, message}}. It needs no Temporal server and no
generation service. The exit code is 1 if any line failed. A line is one of

  a sample                  with an answer of the policy at its end, or with the one of --answer
  a row of rollouts.jsonl   graded again: what is printed also has its rollout_id and total_reward
  {"message_log": [..], "metadata": {..}}

  --environment NAME  default: each line's task_name
  --function MODULE:NAME  a Python function reward(reply, info), or a class with step: in the current folder, on
                      PYTHONPATH or installed; played by python3, without a temporal.yaml
  --answer TEXT       what the policy says in lines that do not end with role assistant
  --columns COLUMN=NAME,…  of rows of a data set, as of start_batch in Python: question=prompt,answer=extra_env_info.answer
  --semantics NAME  default: that of a row of rollouts.jsonl, else standard, as in a batch: graders grade what the policy
                    said, the last message of a line that is no row. nemo-rl, nemo-rl-sync, nemo-rl-async: as NeMo RL does`,
    load: async () => (await import('./step/step.js')).stepCommand,
  },
  check: {
    usage: `temporal-rollout check [--json] [--config FILE]

Checks every part that FILE names: the Temporal server and its workers, the store (with a small file that it removes
again), each engine (model, token ids, logprobs, control of its weights), each environment. While a stack runs with FILE
(default ./temporal.yaml), it checks that stack. It prints a line for each, with a remedy for each problem; --json prints
lines of JSON. The exit code is 1 if something is broken.`,
    load: async () => (await import('./check.js')).checkCommand,
  },
  'check-template': {
    usage: `temporal-rollout check-template [--service NAME] [--model NAME] [--template-kwargs JSON] [--config FILE]

Says whether observations with role user, tool or environment can continue the chat template of NAME (default "default")
after the policy's turns, with and without a system prompt, and with answers that begin with thinking. If not, it names
the token that the template rewrites, its message, and a remedy. The exit code is 1 if no role can be continued.`,
    load: async () => (await import('./check-template.js')).checkTemplateCommand,
  },
  plan: {
    usage: `temporal-rollout plan --rollouts N --turns N --turn-time T --tokens N [--turn-slice 10m] [--json]

Prints what N rollouts in flight need of Temporal, the store and workers, computed from measured figures (docs/scale.md):
requests and events a second, actions of Temporal Cloud, bytes, cores, processes, memory, open files. It needs no server.

  --rollouts N    in flight at once; one that ends is replaced
  --turns N       of each rollout
  --turn-time T   of one turn, such as 6s: the engine's time and the environment's
  --tokens N      sampled in one turn
  --turn-slice T  the workers' turn_slice`,
    load: async () => (await import('./plan/plan-command.js')).planCommand,
  },
  up: {
    usage: `temporal-rollout up [--exit | --no-batch] [--config FILE | --example NAME] [--simulator FILE | --engine URL]
temporal-rollout up --join PID [--keep] [--config FILE] [--simulator FILE | --engine URL]
temporal-rollout up --end | --lines [--config FILE]

Starts a Temporal dev server with its Web UI, a worker and a simulated engine, and runs the sliding-puzzle batch.
--exit ends after the batch; the exit code is 0 only if every rollout completed. No batch is started with --no-batch, or
with a FILE other than the project's own temporal.yaml. FILE is ./temporal.yaml by default, and the project's own where
there is none; then the example's request and samples are put into ./examples/sliding-puzzle. The worker has FILE's
settings, and the engines that FILE names (generation) play. The simulator plays service "default" if FILE names none, and
in place of http://127.0.0.1:8000/v1 in the project's own temporal.yaml. The stack's files go to .rollouts beside FILE.
With --engine URL that engine plays service "default", with --simulator FILE the simulator does; FILE then has its
settings in YAML (speed, faults, a log of its requests), in place of the example's.

--example NAME plays the batch of examples/NAME, which has a temporal.yaml of its own, such as \`agent\`. Where ./examples
does not have it, it is put there first.

--join is for programs (durable_rollouts.local): it ends at once if a stack runs there, else it starts one without a
batch. FILE may be missing, and .rollouts/stack.json says what runs. The stack ends when the processes PID that it was
joined for have left it, or ten minutes after the last of them was killed; with --keep it stays.
--end ends the stack that runs there, however it was started. --lines prints how another terminal reaches it.`,
    load: async () => (await import('./up.js')).upCommand,
  },
  examples: {
    usage: `temporal-rollout examples [FOLDER]

Copies the project's examples into FOLDER (default ./examples), to try and to change. Files that are there stay.`,
    load: async () => (await import('./examples.js')).examplesCommand,
  },
};
