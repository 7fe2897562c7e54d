import { z } from 'zod';
import { listOf, TokenIds } from '../../model/untrusted.js';
import type { GenerationRequest } from '../generation-service.js';
import { checked, WeightLabel } from '../wire/ask.js';
import type { CallSite } from '../wire/wire-faults.js';
import { ErrorEvent, protocolFault } from '../wire/wire-faults.js';
import { isFiltered } from './limits.js';

/** `[logprob, id, text]`. */
const Scored = z.tuple([z.unknown(), z.int()]).rest(z.unknown());

/** One event of a stream of `/generate` (SGLang 0.5.23); the other fields are not needed. */
const Event = z.object({
  output_ids: TokenIds,
  meta_info: z.object({
    /** Absent only where it was cut off while it waited: all its ids were sent before. */
    prompt_tokens: z.int().optional(),
    completion_tokens: z.int(),
    output_token_logprobs: listOf(Scored).nullish(),
    output_top_logprobs: listOf(listOf(Scored).nullable()).nullish(),
    output_token_sampling_logprobs: listOf(z.unknown()).nullish(),
    /** Only in the last event. */
    weight_versions: listOf(
      z.object({ version: WeightLabel, start: z.int(), end: z.int() }),
    ).nullish(),
    finish_reason: z
      .object({
        type: z.string(),
        matched: z.unknown().optional(),
        message: z.string().nullish(),
        status_code: z.int().nullish(),
      })
      .nullish(),
  }),
});
type Meta = z.infer<typeof Event>['meta_info'];

/**
 * Reads the events of one answer. Each has all tokens so far, or only its own (`--incremental-streaming-output`): an
 * event with as many ids as it counts has all. Where they stand is checked by the count, as on other wires, whose shape
 * the events get.
 */
export function createEventReader(
  request: GenerationRequest,
  site: CallSite,
): (event: unknown) => object {
  let count = 0;
  let last: number | undefined;
  return (event) => {
    const { output_ids, meta_info } = checked(Event, { value: event, site });
    const finish = finishIn(meta_info, request);
    const { completion_tokens, prompt_tokens, weight_versions } = meta_info;
    if (prompt_tokens === undefined && finish.finish_reason === 'abort') {
      const counted = (at: number): number => Math.min(at, count);
      const spans = weight_versions?.map((span) => {
        return { ...span, start: counted(span.start), end: counted(span.end) };
      });
      const nothing = { token_logprobs: [], top_logprobs: [] };
      const choice = { index: 0, text: '', token_ids: [], logprobs: nothing, ...finish };
      return { choices: [{ ...choice, weight_versions: spans }] };
    }
    const from = output_ids.length === completion_tokens ? count : 0;
    if (from > 0 && output_ids.length >= from && output_ids[from - 1] !== last) {
      const what = `output_ids.${from - 1}: expected ${last ?? 'none'}, as in the event before, got ${output_ids[from - 1] ?? 'none'}`;
      throw protocolFault(what, site);
    }
    const token_ids = output_ids.slice(from);
    count += token_ids.length;
    last = token_ids.at(-1) ?? last;
    const logprobs = scoresOf(meta_info, { from, token_ids, request, site });
    const choice = { index: 0, text: '', token_ids, logprobs, ...finish, weight_versions };
    return { choices: [choice], usage: { prompt_tokens, completion_tokens } };
  };
}

/**
 * An error may come as the end of a stream, with an id that is no token. No stop string is sent, so a matched text is
 * an error, too: `NaN happened`, behind an id that the model has not sampled.
 */
function finishIn({ finish_reason }: Meta, { stop_token_ids }: GenerationRequest) {
  if (finish_reason == null) return {};
  const { type, matched, message, status_code: code } = finish_reason;
  if (type === 'abort' && code != null) throw new ErrorEvent({ error: { message, code } });
  if (type === 'stop' && typeof matched === 'string')
    throw new ErrorEvent({ error: { message: matched } });
  const isAsked = typeof matched === 'number' && stop_token_ids.includes(matched);
  return { finish_reason: type, stop_reason: isAsked ? matched : null };
}

/** The logprobs of the event's own tokens, each of which is named beside its logprob. */
function scoresOf(
  { output_token_logprobs, output_top_logprobs, output_token_sampling_logprobs }: Meta,
  {
    from,
    token_ids,
    request,
    site,
  }: { from: number; token_ids: readonly number[]; request: GenerationRequest; site: CallSite },
) {
  if (!request.logprobs) return null;
  const scored = output_token_logprobs?.slice(from) ?? [];
  const other = scored.findIndex(([, id], i) => id !== token_ids[i]);
  if (other !== -1) {
    const what = `output_token_logprobs.${from + other}: expected id ${token_ids[other] ?? 'none'}, got ${String(scored[other]?.[1])}`;
    throw protocolFault(what, site);
  }
  return {
    token_logprobs: isFiltered(request)
      ? (output_token_sampling_logprobs?.slice(from) ?? [])
      : scored.map(([logprob]) => logprob),
    top_logprobs: (output_top_logprobs ?? [])
      .slice(from)
      .map((tops) =>
        Object.fromEntries((tops ?? []).map(([logprob, id]) => [`token_id:${id}`, logprob])),
      ),
  };
}
