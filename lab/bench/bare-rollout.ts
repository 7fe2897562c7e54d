import { renderPrompt } from '../../src/activities/start/render-prompt.js';
import type { Metadata, TurnAnswer } from '../../src/environments/environment.js';
import { createSlidingPuzzle } from '../../src/environments/sliding-puzzle/kind.js';
import type { PuzzleSample } from '../../src/environments/sliding-puzzle/generate-samples.js';
import type { GenerationService } from '../../src/generation/generation-service.js';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import type { BatchRequest } from '../../src/model/batch-request.js';
import { observationFormatOf } from '../../src/model/batch-request.js';
import { textOf } from '../../src/model/content.js';
import type { LogMessage } from '../../src/model/results/row-parts.js';
import type { Message } from '../../src/model/sample.js';
import { seedOf } from '../../src/model/turn/seeds.js';
import { idsAfterGeneration } from '../../src/model/turn/turn-end.js';

const MODEL = 'simulator';

export interface BareRollouts {
  /** One rollout in memory. `request_id` returns the id of a turn's request. */
  play(rollout: BareRollout): Promise<Played>;
  close(): Promise<void>;
}

export interface BareRollout {
  sample: PuzzleSample;
  row: number;
  /** Seeds of requests are derived from it and the row, so another number gives another game. */
  repeat: number;
  request_id: (turn: number) => string;
}

export interface Played {
  turns: number;
  /** Generated. */
  tokens: number;
  total_reward: number;
}

export interface BareOptions {
  base_url: string;
  first_token_timeout_ms: number;
  idle_timeout_ms: number;
  /** Nobody reads its samples. */
  request: BatchRequest;
}

/** The loop without durability: the real adapter and environment, with everything in memory. */
export function createBareRollouts({ request, ...timeouts }: BareOptions): BareRollouts {
  const service = createVllmService({ api_key: null, ...timeouts });
  const environment = createSlidingPuzzle();
  const play = async (rollout: BareRollout): Promise<Played> => {
    const { sample, row } = rollout;
    const { signal } = new AbortController();
    const generation = { ...request.generation, model: MODEL };
    const log: LogMessage[] = await renderPrompt(sample.message_log, {
      service,
      generation,
      signal,
      check: () => undefined,
    });
    let metadata: Metadata = sample.extra_env_info;
    let { stop_strings } = sample;
    let tokens = 0;
    let total_reward = 0;
    for (let turn = 0; turn < request.max_rollout_turns; turn++) {
      const message = await generate({ log, stop_strings, turn, rollout, service, request });
      log.push(message);
      tokens += message.token_ids.length;
      const answer = await environment.step(
        {
          message_log: log.map(({ role, content }) => ({ role, content: textOf(content) })),
          metadata,
        },
        { idempotency_key: `${row}/${turn}`, signal },
      );
      const { observation } = answer;
      if (observation === null) throw new Error('the environment answered no observation');
      total_reward += rewardOf(answer);
      metadata = answer.metadata ?? metadata;
      stop_strings = answer.next_stop_strings ?? stop_strings;
      const token_ids = await encode(observation, { after: message, service, request });
      log.push({ ...observation, token_ids });
      if (answer.terminated) return { turns: turn + 1, tokens, total_reward };
    }
    return { turns: request.max_rollout_turns, tokens, total_reward };
  };
  return { play, close: () => service.close() };
}

/** As `step` does, so that both loops play the same game: the prompts have the same ids. */
async function encode(
  message: Message,
  {
    after,
    service,
    request,
  }: { after: LogMessage; service: GenerationService; request: BatchRequest },
): Promise<number[]> {
  const { signal } = new AbortController();
  if (observationFormatOf(request) === 'bare') {
    const text = textOf(message.content);
    return await service.tokenize({ model: MODEL, text, add_special_tokens: false }, signal);
  }
  const { chat_template_kwargs } = request.generation;
  const ids = await service.renderTurn({ model: MODEL, message, chat_template_kwargs }, signal);
  return idsAfterGeneration(after.token_ids, ids);
}

/** The puzzle has only one. */
function rewardOf({ reward }: TurnAnswer): number {
  return typeof reward === 'number' ? reward : 0;
}

interface Turn {
  log: readonly LogMessage[];
  stop_strings: readonly string[];
  turn: number;
  rollout: BareRollout;
  service: GenerationService;
  request: BatchRequest;
}

async function generate(of: Turn): Promise<LogMessage> {
  const { log, stop_strings, turn, rollout, service, request } = of;
  const { max_new_tokens, ...sampling } = request.generation;
  const token_ids: number[] = [];
  const logprobs: number[] = [];
  let content = '';
  const prompt_ids = log.flatMap((message) => message.token_ids);
  const onDelta: Parameters<GenerationService['generate']>[1]['onDelta'] = (delta) => {
    token_ids.push(...delta.token_ids);
    logprobs.push(...delta.logprobs);
    content += delta.text;
  };
  const { row, repeat } = rollout;
  await service.generate(
    {
      prompt_ids,
      max_tokens: Math.min(max_new_tokens, request.max_seq_len - prompt_ids.length),
      ...sampling,
      model: MODEL,
      stop_strings,
      seed: seedOf(request, { row, repeat, turn, inherited: 0 }),
      logprobs: true,
      request_id: rollout.request_id(turn),
      session_id: `bare/${row}-${repeat}`,
    },
    { signal: new AbortController().signal, onDelta },
  );
  return { role: 'assistant', content, token_ids, generation_logprobs: logprobs };
}
