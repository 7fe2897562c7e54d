import type { Place } from '../../model/pictures.js';
import { joinedIds } from '../../model/token-id.js';
import type { GenerationRequest } from '../generation-service.js';
import { completionBody } from './completion-body.js';

/**
 * `/inference/v1/generate` (captures 116 to 125, 157, 189): only ids both ways, and the last chunk names the weights of
 * each token. Its chunks are converted to the shape of `/v1/completions`, so that both pass the same checks.
 */

/** Fields of the request itself; all others are sampling parameters. */
const OUTSIDE = ['model', 'prompt', 'stream', 'stream_options', 'cache_salt'];
/** Meaningless without text, or always so. */
const OF_TEXT = [
  'return_token_ids',
  'return_tokens_as_token_ids',
  'return_weight_versions',
  'include_stop_str_in_output',
  'skip_special_tokens',
];

/**
 * The same sampling in the engine's terms. Stop strings are matched on this side, which has the text. `placeholder`:
 * what stands for a picture of the request.
 */
export function generateBody(
  { pictures = [], ...request }: GenerationRequest,
  placeholder: readonly number[] = [],
): Record<string, unknown> {
  const body = completionBody({ ...request, stop_strings: [] });
  const fields = Object.entries(body).filter(([name]) => !OF_TEXT.includes(name));
  const { prompt, ...outside } = Object.fromEntries(
    fields.filter(([name]) => OUTSIDE.includes(name)),
  );
  const sampling = Object.fromEntries(fields.filter(([name]) => !OUTSIDE.includes(name)));
  const sampling_params = { ...sampling, detokenize: false };
  if (pictures.length === 0) return { ...outside, token_ids: prompt, sampling_params };
  return {
    ...outside,
    token_ids: folded(request.prompt_ids, { places: pictures, placeholder }),
    content_parts: mediaParts(pictures),
    return_token_ids: true,
    sampling_params,
  };
}

/** `content_parts`: other than in messages, a URL is its own field. */
export const mediaParts = (pictures: readonly { url: string }[]): object[] =>
  pictures.map(({ url }) => ({ type: 'image_url', url }));

/** Each run of ids becomes the placeholder. */
export function folded(
  ids: readonly number[],
  { places, placeholder }: { places: readonly Place[]; placeholder: readonly number[] },
): number[] {
  let from = 0;
  const parts = places.flatMap(({ offset, length }) => {
    const before = ids.slice(from, offset);
    from = offset + length;
    return [before, placeholder];
  });
  return joinedIds([...parts, ids.slice(from)]);
}

/**
 * Its logprobs are in the shape of completions, where ids are names. With `return_token_ids` the first chunk has the
 * prompt's ids, with those of its pictures. Nothing is checked here: later checks report what is wrong. `tops`: the
 * likeliest ids were asked for; it sends the sampled one among them in any case.
 */
export function asCompletionChunk(chunk: unknown, { tops }: { tops: boolean }): unknown {
  const { choices, prompt_token_ids, ...rest } = Object(chunk) as Record<string, unknown>;
  if (!Array.isArray(choices) || choices.length !== 1) return chunk;
  const choice = {
    ...(choices[0] as object),
    ...(prompt_token_ids != null && { prompt_token_ids }),
    text: '',
    logprobs: logprobsIn(memberOf(choices[0], 'logprobs'), { tops }),
  };
  return { ...rest, choices: [choice] };
}

const memberOf = (value: unknown, name: string): unknown =>
  (Object(value) as Record<string, unknown>)[name];

function logprobsIn(logprobs: unknown, { tops }: { tops: boolean }): unknown {
  const content = memberOf(logprobs, 'content');
  if (!Array.isArray(content)) return logprobs;
  const topsOf = (likeliest: unknown): unknown =>
    Object.fromEntries(
      (Array.isArray(likeliest) ? likeliest : []).map((top) => [
        `token_id:${String(memberOf(top, 'token_id'))}`,
        memberOf(top, 'logprob'),
      ]),
    );
  return {
    token_logprobs: content.map((one) => memberOf(one, 'logprob')),
    ...(tops && { top_logprobs: content.map((one) => topsOf(memberOf(one, 'top_logprobs'))) }),
  };
}
