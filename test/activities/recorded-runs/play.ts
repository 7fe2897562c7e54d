import type { z } from 'zod';
import type { BatchRequest } from '../../../src/model/batch-request.js';
import type { BatchOutcome } from '../../../lab/bed/batch.js';
import type { EngineRequest, ScriptedEngine } from '../../servers/scripted-engine.js';
import type { EnvironmentStep, ScriptedEnvironment } from '../../servers/scripted-environment.js';
import type { GoldenCase } from './case.js';

/** A case as it was played: what came out, and what the engine and the environment saw. */
export interface Played extends BatchOutcome {
  requests: EngineRequest[];
  steps: EnvironmentStep[];
}

/** Longer than any `max_seq_len` of a case: an engine that limits nothing. */
const LONG_CONTEXT = 1_000_000;

/** More than any case generates: no limit of the request's own. */
const ANY_NUMBER_OF_TOKENS = 4096;
/** Upstream's default. */
const ANY_NUMBER_OF_TURNS = 999_999;

/** `limit: context` is an engine whose context ends where the case's does. */
export const contextLength = ({ script, config }: GoldenCase): number =>
  script.backend.limit === 'none' ? LONG_CONTEXT : config.max_seq_len;

export const serviceName = (length: number): string => `context_${length}`;

export function toRequest(golden: GoldenCase): z.input<typeof BatchRequest> {
  const { input, config, script, semantics } = golden;
  return {
    samples: input.message_log.map((_, i) =>
      Object.fromEntries(Object.entries(input).map(([column, values]) => [column, values[i]])),
    ),
    generation: {
      service: serviceName(contextLength(golden)),
      max_new_tokens: maxNewTokens(golden),
      greedy: config.greedy ?? false,
      include_logprobs: script.backend.return_logprobs,
    },
    max_seq_len: config.max_seq_len,
    max_rollout_turns: config.max_rollout_turns ?? ANY_NUMBER_OF_TURNS,
    rollout_timeout: '60s',
    ...(golden.expected.overlong_filtering !== undefined && { overlong: 'mask' }),
    semantics,
  };
}

export const maxNewTokens = ({ script }: GoldenCase): number =>
  script.backend.max_new_tokens ?? ANY_NUMBER_OF_TOKENS;

/** The servers that a case is scripted on, and what plays a batch. */
export interface Stage {
  engine: ScriptedEngine;
  environment: ScriptedEnvironment;
  playBatch: (batch_id: string, request: unknown) => Promise<BatchOutcome>;
}

export async function play(
  golden: GoldenCase,
  { engine, environment, playBatch }: Stage,
): Promise<Played> {
  const { script, input, name: batch_id } = golden;
  // "The last entry repeats": said of both in the format of the cases.
  engine.script(batch_id, { generation: script.generation, after_last: 'repeat' });
  environment.script(batch_id, {
    steps: script.environment.steps,
    after_last: 'repeat',
    style: (row) => {
      const task = script.environment.tasks[input.task_name[row] ?? ''];
      return {
        no_stop_strings: task?.next_stop_strings_none ?? false,
        terminateds_float: task?.terminateds_float ?? false,
      };
    },
  });
  const outcome = await playBatch(batch_id, toRequest(golden));
  return {
    ...outcome,
    requests: engine.requests(batch_id),
    steps: environment.steps(batch_id),
  };
}
