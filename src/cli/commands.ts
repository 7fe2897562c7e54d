import { GYM_COMMANDS } from '../../gym/cli/commands.js';
import type { Command } from '../platform/command.js';

export const COMMANDS: Partial<Record<string, Command>> = {
  ...GYM_COMMANDS,
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
  step: {
    usage: `temporal-rollout step --environment NAME --input FILE [--config FILE]

One step of environment NAME per line of FILE, {"message_log": [..], "metadata": {..}}; prints one line for each:
{observation, reward, terminated, metadata, next_stop_strings, answer} or {"error": {type, message}}. No Temporal server
and no generation service is needed. The exit code is 1 when any line failed.`,
    load: async () => (await import('./step.js')).stepCommand,
  },
  'check-template': {
    usage: `temporal-rollout check-template [--service NAME] [--model NAME] [--template-kwargs JSON] [--config FILE]

Says whether the chat template of NAME (default "default") can be continued behind the policy's turns by an observation
of role user, tool or environment, with and without a system prompt, and with answers that begin with thinking: which
token it rewrites, in which message, and what helps. The exit code is 1 when no role can be continued.`,
    load: async () => (await import('./check-template.js')).checkTemplateCommand,
  },
  up: {
    usage: `temporal-rollout up [--exit]

Starts a Temporal dev server with its Web UI, the simulator and a worker, and runs the sliding-puzzle batch.
--exit ends after the batch; the exit code is 0 only if every rollout completed.`,
    load: async () => (await import('./up.js')).upCommand,
  },
};
