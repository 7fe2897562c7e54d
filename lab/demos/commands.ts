import type { Command } from '../../src/platform/command.js';

/** Demonstrations as commands of `temporal-rollout`. */
export const DEMO_COMMANDS: Record<string, Command> = {
  cluster: {
    usage: `temporal-rollout cluster [--exit] [--repeats 32] [--folder FOLDER]

Runs the processes of a cluster on this machine, and a batch on them with its board: PostgreSQL for journals, a Temporal
server, two simulators and two workers of each role, which share only the results folder. Any killed process is started
again. --exit ends after the batch. FOLDER (default .rollouts/cluster-TIME) has settings, logs and results.`,
    load: async () => (await import('./cluster/command.js')).clusterCommand,
  },
  learning: {
    usage: `temporal-rollout learning [--chaos] [--engine E] [--trainer T] [--seed N] [--steps N] [--folder DIR] …

A policy that learns on one machine (examples/learning): starts an engine, a Temporal server, a worker and a trainer,
shows a live board, checks each sampled token against the engine's log and draws a plot. The exit code is 0 only if
nothing is wrong and the held-out reward has reached --target (0.9).

--chaos kills one of the four every --kill-every seconds (5), at most --kills N of them (default: until the end). Then a
loop that starts over learns the same under the same kills, unless --no-comparison is given. --folder DIR continues an
interrupted run. With --sleep 1 or 2 the engine sleeps while the trainer computes, with --send the trainer sends it the
weights, which it then reads from no file. --tick S sets the seconds per token. --shuffle-advantages is the control,
which learns nothing.

--engine vllm uses a real vLLM: ROLLOUT_LEARNING_START is the command that starts it, ROLLOUT_LEARNING_PYTHON a Python
with torch; --target is then 0.7 (examples/learning/README.md). --engine torch is an engine of our own for the same
model, --trainer trl has TRL's GRPOTrainer train it (examples/trl/README.md), with --rank N an adapter of that rank in
its place. Both need ROLLOUT_LEARNING_PYTHON.`,
    load: async () => (await import('./learning/command.js')).learningCommand,
  },
};
