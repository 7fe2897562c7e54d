import { GYM_COMMANDS } from '../../gym/cli/commands.js';
import type { Command } from '../platform/command.js';

export const COMMANDS: Partial<Record<string, Command>> = {
  ...GYM_COMMANDS,
  start: {
    usage: `temporal-rollout start --input-file FILE [--id ID] [--watch] [--config FILE]

Starts the batch that FILE, a batch request as JSON, asks for. ID names it for ever: starting it again continues it.
Without --id it gets a new one, which is printed. --watch shows its board until it has ended, then its result.
The Temporal server and the task queue are those of temporal.yaml, where there is one here, else of TEMPORAL_*
variables and temporal.toml, else 127.0.0.1:7233 and "rollouts"; so it is for watch, stop and result.`,
    load: async () => (await import('./batch.js')).startCommand,
  },
  watch: {
    usage: `temporal-rollout watch BATCH [--config FILE]

The live board of a batch, whoever started it, until it has ended; then its result. Ctrl-C leaves the batch as it is.
The exit code is 0 when the batch has ended with a result, 1 when it failed, 130 after Ctrl-C.`,
    load: async () => (await import('./batch.js')).watchCommand,
  },
  stop: {
    usage: `temporal-rollout stop BATCH [--config FILE]

Ends a batch that runs and keeps what is there: its rollouts end as stopped, its files are written.`,
    load: async () => (await import('./batch.js')).stopCommand,
  },
  result: {
    usage: `temporal-rollout result BATCH [--json] [--config FILE]

Waits until a batch has ended and prints its metrics, counts and files, or the whole of it as JSON. The exit code is 1
when the batch failed.`,
    load: async () => (await import('./batch.js')).resultCommand,
  },
  show: {
    usage: `temporal-rollout show BATCH [--worst N] [--sort reward|length|turns|wall] [--reverse] [--limit N] [--failed]
                           [--where CONDITION] [--follow] [--json] [--config FILE]
temporal-rollout show BATCH/ROW [--json] [--tokens] [--config FILE]
temporal-rollout show BATCH/ROW-REPEAT [--turns FIRST-LAST] [--tokens] [--follow] [--json] [--config FILE]

A batch's rollouts, from the store that temporal.yaml names: while it runs, afterwards, and with server and worker dead.
BATCH lists them, BATCH/ROW puts those of one sample side by side, BATCH/ROW-REPEAT is one to read: its messages, the
reward, mean logprob and end of each turn, where a generation was cut and went on, attempts and faults with their times.

--worst N is the N lowest rewards; --sort has the largest first, --reverse the smallest. CONDITION is such as
'reward<0.5 and turns>=3', of reward, length (tokens), turns, wall (seconds), attempts, faults, row, repeat, ended, task
and failure. Only a rollout that ended validly has a reward. --tokens adds ids and logprobs. --follow shows what comes.
--json prints a line for each rollout. What is longer than the terminal goes through PAGER (less).`,
    load: async () => (await import('./show.js')).showCommand,
  },
  worker: {
    usage: `temporal-rollout worker [--config FILE]

Runs the roles that FILE (default ./temporal.yaml) names, until SIGINT or SIGTERM.`,
    load: async () => (await import('./worker.js')).workerCommand,
  },
  simulator: {
    usage: `temporal-rollout simulator [--port N] [--settings FILE] [--KEY VALUE …]

Speaks vLLM's wire on 127.0.0.1:N (default 8000) and plays sliding puzzles. It answers other prompts with random
words, or, where a prompt's last message has lines \`Say: <text>\`, with these: one an answer, the last one from then
on. KEY is a setting such as --tokens-per-second 200, --thinking-tokens 20 or [10,40], --skill 2, --seed 7; FILE holds
them as YAML.`,
    load: async () => (await import('./simulator.js')).simulatorCommand,
  },
  policy: {
    usage: `temporal-rollout policy status [--service NAME] [--config FILE]
temporal-rollout policy publish --version N --path CHECKPOINT [--mode keep|abort|wait] [--cache reset|keep]
                                [--order all|rolling] [--quorum K] [--pause-limit 10m] [--input FILE] …

The weights of a generation service (default "default"): where each replica is, or new weights for all of them. FILE
holds the fields of update publish as JSON, a probe among them; options stand in their place. On a terminal publish
shows each replica while it lasts. The exit code is 1 when the update fails.`,
    load: async () => (await import('./policy.js')).policyCommand,
  },
  stream: {
    usage: `temporal-rollout stream status --id STREAM [--watch] [--config FILE]
temporal-rollout stream stop --id STREAM [--config FILE]
temporal-rollout stream forget --id STREAM --through STEP [--config FILE]

What a stream is at, its end, or the deletion of delivered steps up to STEP. --watch shows the table on a terminal until
the stream has ended.`,
    load: async () => (await import('./stream.js')).streamCommand,
  },
  cluster: {
    usage: `temporal-rollout cluster [--exit] [--repeats 32] [--folder FOLDER]

The processes of a cluster on this machine: PostgreSQL for journals, Temporal server, two simulators and two workers of
each role that share no folder but that of results; and a batch on them, with its board. Any of them may be killed: it
starts again. --exit ends after the batch. FOLDER (default .rollouts/cluster-TIME) holds settings, logs and results.`,
    load: async () => (await import('./cluster.js')).clusterCommand,
  },
  store: {
    usage: `temporal-rollout store migrate [--config FILE]

Makes the tables of a store in PostgreSQL, or brings them to this release's version. Workers refuse a schema that is
older or newer than theirs.`,
    load: async () => (await import('./store.js')).storeCommand,
  },
  step: {
    usage: `temporal-rollout step --environment NAME --input FILE [--config FILE]

One step of environment NAME per line of FILE, {"message_log": [..], "metadata": {..}}; prints one line for each:
{observation, reward, terminated, metadata, next_stop_strings, answer} or {"error": {type, message}}. No Temporal server
and no generation service is needed. The exit code is 1 when any line failed.`,
    load: async () => (await import('./step.js')).stepCommand,
  },
  check: {
    usage: `temporal-rollout check [--json] [--config FILE]

Asks all that FILE (default ./temporal.yaml) names, and changes nothing: the Temporal server, whether workers wait there,
the store, each engine (model, token ids, logprobs, control of its weights), each environment; a line for each, and what
to do about those that are not well. --json prints a line of JSON for each. The exit code is 1 when something is broken.`,
    load: async () => (await import('./check.js')).checkCommand,
  },
  'check-template': {
    usage: `temporal-rollout check-template [--service NAME] [--model NAME] [--template-kwargs JSON] [--config FILE]

Says whether the chat template of NAME (default "default") can be continued behind the policy's turns by an observation
of role user, tool or environment, with and without a system prompt, and with answers that begin with thinking: which
token it rewrites, in which message, and what helps. The exit code is 1 when no role can be continued.`,
    load: async () => (await import('./check-template.js')).checkTemplateCommand,
  },
  up: {
    usage: `temporal-rollout up [--exit | --no-batch] [--config FILE]

Starts a Temporal dev server with its Web UI, the simulator and a worker, and runs the sliding-puzzle batch.
--exit ends after the batch; the exit code is 0 only if every rollout completed. With --no-batch, and with another FILE
than the project's own temporal.yaml (default ./temporal.yaml), no batch is started. The worker has FILE's settings,
with the simulator as generation service "default"; the stack's files go to .rollouts beside FILE.`,
    load: async () => (await import('./up.js')).upCommand,
  },
  learning: {
    usage: `temporal-rollout learning [--chaos | --engine vllm] [--seed N] [--steps N] [--folder DIR] …

A policy that learns through all of this on one machine (examples/learning): starts an engine, a Temporal server, a worker
and a trainer, shows a live board, checks each sampled token against the engine's log and draws a plot. The exit code is 0
only if nothing is wrong and the held-out reward has reached --target (0.9).

--chaos kills one of the four every --kill-every seconds (5), --kills N of them at most (default: until the end), and
then lets a loop that starts over learn the same under the same kills (--no-comparison: not that). --folder DIR goes on
with a run that was interrupted. --tick S: seconds that a token takes. --shuffle-advantages: the control.

--engine vllm has a real vLLM in place of the example's engine: ROLLOUT_LEARNING_START is the command that starts it,
ROLLOUT_LEARNING_PYTHON a Python that has torch; --target is 0.7 then (examples/learning/README.md).`,
    load: async () => (await import('./learning.js')).learningCommand,
  },
};
