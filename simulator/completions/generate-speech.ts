import { z } from 'zod';
import { readBody } from '../wire/body-reader.js';
import { expand, picturesOf, scaleOutIsOff } from '../wire/pictures.js';
import { checkCompletion, CompletionBody } from './completion-request.js';
import type { Piece, Wire, WireFacts } from './completion-wire.js';
import type { Speech } from './completions.js';

/** `/inference/v1/generate`: ids alone, and the last chunk names the weights of each token. */
export const GENERATE: Speech = {
  id_prefix: 'generate-tokens-',
  read: async (exchange, settings) => {
    if (!settings.scale_out) throw scaleOutIsOff();
    const { token_ids, sampling_params, content_parts, ...outside } = await readBody(
      exchange,
      GenerateBody,
    );
    const { token_ids: prompt, places } = expand(token_ids, picturesOf(content_parts ?? []));
    const body = { ...sampling_params, ...outside, prompt };
    return { ...checkCompletion(CompletionBody.parse(body), settings), places };
  },
  write: createGenerateWire,
};

const GenerateBody = z.looseObject({
  token_ids: z.array(z.int().nonnegative()).min(1),
  sampling_params: z.looseObject({}),
  /** Its ids have a placeholder for each picture. */
  content_parts: z.array(z.looseObject({})).nullish(),
});

function createGenerateWire({ id, model, request, answer, spans, ...facts }: WireFacts): Wire {
  let isEchoed = facts.isEchoed;
  const echo = (): object => {
    if (isEchoed || !request.return_token_ids) return {};
    isEchoed = true;
    const { places = [] } = request;
    return {
      prompt_token_ids: facts.prompt_token_ids,
      mm_placeholders: places.length === 0 ? null : { image: places },
    };
  };
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
  const head = { request_id: id, usage: null, output_mode: 'tokens' };
  const event = (value: object): string => `data: ${JSON.stringify({ ...head, ...value })}\n\n`;
  const usageOf = (completion_tokens: number) => ({
    prompt_tokens: request.prompt.length,
    total_tokens: request.prompt.length + completion_tokens,
    completion_tokens,
  });
  /** In an event that is no last one, missing details are null (capture 243). */
  const countIn = ({ end }: Piece) =>
    request.include_usage && request.continuous_usage_stats
      ? { ...usageOf(end), prompt_tokens_details: null, completion_tokens_details: null }
      : null;
  return {
    chunk: (piece) => event({ usage: countIn(piece), ...echo(), choices: [choiceOf(piece)] }),
    usage: (tokens) =>
      request.include_usage ? event({ usage: usageOf(tokens), choices: [] }) : '',
    whole: (piece) =>
      JSON.stringify({
        ...head,
        model,
        usage: usageOf(piece.end),
        ...echo(),
        choices: [choiceOf(piece)],
      }),
  };
}
