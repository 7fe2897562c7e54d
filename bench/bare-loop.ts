import { z } from 'zod';
import { renderPrompt } from '../src/activities/render-prompt.js';
import { createEnvironment } from '../src/environments/registry.js';
import type { Metadata } from '../src/environments/environment.js';
import type { PuzzleSample } from '../src/environments/sliding-puzzle/generate-samples.js';
import type { GenerationService } from '../src/generation/generation-service.js';
import { createVllmService } from '../src/generation/vllm/vllm-service.js';
import { BatchRequest } from '../src/model/batch-request.js';
import type { LogMessage } from '../src/model/sample.js';
import { seedOf } from '../src/model/seeds.js';
import { serveParent } from './contender-process.js';
import { puzzleSamples } from './samples.js';
import { GENERATION, MAX_SEQ_LEN, TURNS } from './scenario.js';

/**
 * The loop without anything durable: the adapter, the environment and the simulator of the real thing, all rollouts at
 * once in one process, everything in its memory. A process of its own, asked for a number of rollouts, answers turns.
 */

const Question = z.strictObject({ rollouts: z.int() });
const MODEL = 'simulator';
const [baseUrl = ''] = process.argv.slice(2);
const service = createVllmService({
  base_url: baseUrl,
  api_key: null,
  first_token_timeout_ms: 600_000,
  idle_timeout_ms: 120_000,
});
const environment = createEnvironment({ kind: 'sliding_puzzle' });
const request = BatchRequest.parse({
  samples: puzzleSamples(1),
  generation: { ...GENERATION, model: MODEL },
  max_seq_len: MAX_SEQ_LEN,
});

async function playRollout(sample: PuzzleSample, row: number): Promise<number> {
  const { signal } = new AbortController();
  const { generation } = request;
  const log: LogMessage[] = await renderPrompt(sample.message_log, { service, generation, signal });
  let metadata: Metadata = sample.extra_env_info;
  let { stop_strings } = sample;
  for (let turn = 0; turn < TURNS; turn++) {
    log.push(await generate({ log, stop_strings, row, turn, signal }));
    const answer = await environment.step(
      {
        message_log_batch: [log.map(({ role, content }) => ({ role, content }))],
        metadata: [metadata],
      },
      { idempotency_key: `${row}/${turn}`, signal },
    );
    const [message] = answer.observations;
    if (message === undefined) throw new Error('the environment answered no observation');
    metadata = answer.metadata[0] ?? metadata;
    stop_strings = answer.next_stop_strings?.[0] ?? stop_strings;
    const text = message.content;
    const token_ids = await service.tokenize(
      { model: MODEL, text, add_special_tokens: false },
      signal,
    );
    log.push({ ...message, token_ids });
    if (answer.terminateds[0]) return turn + 1;
  }
  return TURNS;
}

interface Turn {
  log: readonly LogMessage[];
  stop_strings: readonly string[];
  row: number;
  turn: number;
  signal: AbortSignal;
}

async function generate({ log, stop_strings, row, turn, signal }: Turn): Promise<LogMessage> {
  const { generation } = request;
  const { temperature, top_p, top_k, min_p, max_new_tokens, stop_token_ids } = generation;
  const token_ids: number[] = [];
  const logprobs: number[] = [];
  let content = '';
  const prompt_ids = log.flatMap((message) => message.token_ids);
  const onDelta: Parameters<GenerationService['generate']>[1]['onDelta'] = (delta) => {
    token_ids.push(...delta.token_ids);
    logprobs.push(...delta.logprobs);
    content += delta.text;
  };
  await service.generate(
    {
      prompt_ids,
      model: MODEL,
      max_tokens: Math.min(max_new_tokens, MAX_SEQ_LEN - prompt_ids.length),
      ...{ temperature, top_p, top_k, min_p, stop_strings, stop_token_ids },
      seed: seedOf(request, { row, repeat: 0, turn, inherited: 0 }),
      logprobs: true,
      request_id: `bare/${row}.${turn}`,
      session_id: `bare/${row}`,
    },
    { signal, onDelta },
  );
  return { role: 'assistant', content, token_ids, generation_logprobs: logprobs };
}

serveParent(
  async (question) => {
    const { rollouts } = Question.parse(question);
    const turns = await Promise.all(puzzleSamples(rollouts).map(playRollout));
    return turns.reduce((sum, count) => sum + count, 0);
  },
  () => service.close(),
);
