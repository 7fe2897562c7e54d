import type { z } from 'zod';
import { refuserOf } from './field-kinds.js';
import type { GenerationSettings } from './generation-settings.js';
import { isUpstream, type Semantics } from './semantics.js';

interface Checked {
  num_repeats_add_seed: boolean;
  generation: GenerationSettings;
  semantics: Semantics;
}

export function checkSettings(
  { num_repeats_add_seed, generation, semantics }: Checked,
  context: z.RefinementCtx,
): void {
  const refuse = (field: string, message: string): void => {
    refuserOf(context)(['generation', field], message);
  };
  const { seed, min_tokens, max_new_tokens, top_logprobs, include_logprobs } = generation;
  if (num_repeats_add_seed && seed !== null)
    refuse('seed', `expected null with num_repeats_add_seed (repeat r has seed r), got ${seed}`);
  if (min_tokens > max_new_tokens)
    refuse('min_tokens', `expected at most max_new_tokens ${max_new_tokens}, got ${min_tokens}`);
  if (top_logprobs > 0 && !include_logprobs)
    refuse('top_logprobs', `expected 0 without include_logprobs, got ${top_logprobs}`);
  if (generation.observation_format !== 'chat') return;
  const upstream = isUpstream(semantics) ? `semantics ${semantics}` : null;
  const why = generation.prompt_format === 'raw' ? 'prompt_format raw' : upstream;
  if (why !== null) refuse('observation_format', `expected null or "bare" with ${why}, got "chat"`);
}
