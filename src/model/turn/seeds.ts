import type { BatchRequest } from '../batch-request.js';
import { hash32 } from '../workflow-safe/hash32.js';

/** The place of a generation in its batch, from which its seed is derived. */
export interface SeedPlace {
  row: number;
  repeat: number;
  turn: number;
  /** Tokens of the turn from an earlier attempt: a resumed stream must not repeat the first one's draws. */
  inherited: number;
}

/** The seed of an agent's call. Repeats differ, as do calls with one prompt: an agent may choose between answers. */
export function seedOfCall(settings: Parameters<typeof seedOf>[0], at: SeedPlace): number | null {
  const { num_repeats_add_seed, epoch = 0 } = settings;
  if (!num_repeats_add_seed) return seedOf(settings, at);
  return hash32([at.repeat, at.turn, at.inherited, epoch]);
}

/**
 * The 32-bit seed of one request, or null for none. Equal inputs give equal seeds on any machine. `epoch`: how often a
 * stream has played all samples before. A group's row is another one in each, so only seeds from repeats need it.
 */
export function seedOf(
  {
    generation,
    num_repeats_add_seed,
    epoch = 0,
  }: Pick<BatchRequest, 'generation' | 'num_repeats_add_seed'> & { epoch?: number },
  { row, repeat, turn, inherited }: SeedPlace,
): number | null {
  if (num_repeats_add_seed && epoch > 0) return hash32([repeat, inherited, epoch]);
  if (num_repeats_add_seed) return inherited === 0 ? repeat : hash32([repeat, inherited]);
  if (generation.seed === null) return null;
  return hash32([generation.seed, row, repeat, turn, inherited]);
}
