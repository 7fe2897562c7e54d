import { z } from 'zod';
import { readBody } from '../wire/body-reader.js';
import { errorBody, Refusal } from '../wire/http-exchange.js';
import { checkCompletion, CompletionBody } from './completion-request.js';
import type { Piece, Wire, WireFacts } from './completion-wire.js';
import type { Speech } from './completions.js';

/** `/inference/v1/generate`: ids alone, and the last chunk names the weights of each token. */
export const GENERATE: Speech = {
  id_prefix: 'generate-tokens-',
  read: async (exchange, settings) => {
    if (!settings.scale_out) throw scaleOutIsOff();
    const { token_ids, sampling_params, ...outside } = await readBody(exchange, GenerateBody);
    const body = { ...sampling_params, ...outside, prompt: token_ids, return_token_ids: true };
    return checkCompletion(CompletionBody.parse(body), settings);
  },
  write: createGenerateWire,
};

const GenerateBody = z.looseObject({
  token_ids: z.array(z.int().nonnegative()).min(1),
  sampling_params: z.looseObject({}),
});

/** Capture 203. */
function scaleOutIsOff(): Refusal {
  const message =
    'Scale-out endpoints are disabled. Restart vllm serve with --enable-scale-out to enable them.';
  const body = errorBody({ message, type: 'PermissionDeniedError', param: null, code: 403 });
  return new Refusal({ status: 403, body });
}

function createGenerateWire({ id, model, request, answer, spans }: WireFacts): Wire {
  const choiceOf = ({ start, end, finish_reason }: Piece) => ({
    index: 0,
    finish_reason,
    stop_reason: finish_reason === 'stop' ? answer.stop_reason : null,
    token_ids: answer.token_ids.slice(start, end),
    routed_experts: null,
    sampling_mask: null,
    weight_versions: finish_reason === null ? null : spans,
    logprobs: request.logprobs
      ? {
          content: answer.token_ids.slice(start, end).map((token_id, i) => {
            const logprob = answer.logprobs[start + i] ?? 0;
            const tops = answer.generated_tops?.[start + i] ?? [[token_id, logprob] as const];
            return {
              token_id,
              logprob,
              rank: 1,
              top_logprobs: tops.map(([top, of]) => ({ token_id: top, logprob: of, rank: 1 })),
            };
          }),
        }
      : null,
  });
  const head = { request_id: id, output_mode: 'tokens' };
  const event = (value: object): string => `data: ${JSON.stringify({ ...head, ...value })}\n\n`;
  const usageOf = (completion_tokens: number) => ({
    prompt_tokens: request.prompt.length,
    total_tokens: request.prompt.length + completion_tokens,
    completion_tokens,
  });
  return {
    chunk: (piece) => event({ usage: null, choices: [choiceOf(piece)] }),
    usage: (tokens) =>
      request.include_usage ? event({ usage: usageOf(tokens), choices: [] }) : '',
    whole: (piece) =>
      JSON.stringify({ ...head, model, usage: usageOf(piece.end), choices: [choiceOf(piece)] }),
  };
}
