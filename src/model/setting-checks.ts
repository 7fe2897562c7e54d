import type { z } from 'zod';
import type { GenerationSettings } from './generation-settings.js';
import { isUpstream, type Semantics } from './semantics.js';

/** Checks between fields, for any kind of request. */
export function checkSettings(
  request: { num_repeats_add_seed: boolean; generation: GenerationSettings; semantics: Semantics },
  context: z.RefinementCtx,
): void {
  checkSeeds(request, context);
  checkTokens(request, context);
  checkObservations(request, context);
}

function checkSeeds(
  request: { num_repeats_add_seed: boolean; generation: GenerationSettings },
  context: z.RefinementCtx,
): void {
  if (request.num_repeats_add_seed && request.generation.seed !== null) {
    context.addIssue({
      code: 'custom',
      path: ['generation', 'seed'],
      message: `expected null with num_repeats_add_seed (repeat r has seed r), got ${request.generation.seed}`,
    });
  }
}

function checkTokens(
  { generation }: { generation: GenerationSettings },
  context: z.RefinementCtx,
): void {
  const { min_tokens, max_new_tokens, top_logprobs, include_logprobs } = generation;
  const refuse = (field: string, message: string): void => {
    context.addIssue({ code: 'custom', path: ['generation', field], message });
  };
  if (min_tokens > max_new_tokens)
    refuse('min_tokens', `expected at most max_new_tokens ${max_new_tokens}, got ${min_tokens}`);
  if (top_logprobs > 0 && !include_logprobs)
    refuse('top_logprobs', `expected 0 without include_logprobs, got ${top_logprobs}`);
}

function checkObservations(
  { generation, semantics }: { generation: GenerationSettings; semantics: Semantics },
  context: z.RefinementCtx,
): void {
  if (generation.observation_format !== 'chat') return;
  const { prompt_format } = generation;
  const why =
    prompt_format === 'raw'
      ? 'prompt_format raw'
      : isUpstream(semantics)
        ? `semantics ${semantics}`
        : null;
  if (why === null) return;
  context.addIssue({
    code: 'custom',
    path: ['generation', 'observation_format'],
    message: `expected null or "bare" with ${why}, got "chat"`,
  });
}
