import type { Command } from '../src/platform/command.js';

/** The simulator as a command of `temporal-rollout`. */
export const SIMULATOR_COMMANDS: Record<string, Command> = {
  simulator: {
    usage: `temporal-rollout simulator [--port N] [--settings FILE] [--KEY VALUE …]

Speaks vLLM's wire on 127.0.0.1:N (default 8000) and plays sliding puzzles. It answers other prompts with random
words. If a prompt's last message has lines \`Say: <text>\`, it says these: one per answer, and the last one from then
on. Lines \`Call: <calls of tools as JSON>\` and \`Answer: <text>\` are steps of an agent. FILE has the settings as YAML,
and options override it:

  --tokens-per-second N     speed of each request; 0 (default): the whole answer at once
  --ms-to-first-token N     default 0
  --thinking-tokens N       before each move: a number, or a range such as [10,40] (default [8,40])
  --skill N                 0 plays at random, 3 nearly perfectly; default 1
  --think-tags true         thoughts are between <think> and </think>
  --malformed-calls SHARE   of calls of tools that are no JSON; default 0
  --seed N                  default: another one at each start
  --max-num-seqs N          generations at once; default 256
  --logprobs-mode MODE      processed (default) or raw
  --model NAME              default simulator
  --max-model-len N         default 8192
  --dialect NAME            vllm (default), or sglang: its routes in place of vLLM's
  --incremental-streaming true   as SGLang with --incremental-streaming-output
  --weights-backup false    as SGLang without --enable-weights-cpu-backup; default true
  --dev-mode true           serves what vLLM serves with VLLM_SERVER_DEV_MODE=1: its weights can be changed, as on the
                            simulator of npm start
  --max-loras N             serves /v1/load_lora_adapter, for so many adapters
  --world-size N            what /get_world_size says; default 1
  --front-ends N            processes that answer at its URL in turn, each with a label of its own; default 1
  --scale-out true          serves /inference/v1/generate, as vLLM with --enable-scale-out
  --api-key KEY             required of requests
  --faults LIST             from the start (simulator/settings.ts)
  --log-file FILE           a line for each completion request; --log-tokens true adds the tokens
  --log-limit N             requests that /simulator/requests remembers; default 10000`,
    load: async () => (await import('./command.js')).simulatorCommand,
  },
};
