import { Fault, isDenial } from '../model/faults.js';
import { GenerationSettings } from '../model/generation-settings.js';
import type { LogprobsMode } from '../model/logprobs-mode.js';
import type { GenerationRequest, GenerationService } from './generation-service.js';

/** Ids below every vocabulary's size; their meaning does not matter. */
const PROMPT_IDS = [84, 104, 101, 32];
const TOP = 5;
/** For logprobs of the sampled distribution, distances at the second temperature are four times those at the first. */
const TEMPERATURES = [1, 0.25] as const;
const LONGEST_MS = 30_000;

/** Ratios in between are inconclusive, since an engine's numbers vary a little between requests. */
const RAW_BELOW = 1.25;
const PROCESSED_ABOVE = 1.5;
/** A flatter distribution shows nothing. */
const LEAST_SPREAD = 0.05;

type Logprobs = ReadonlyMap<number, number>;

/**
 * Finds the mode of a replica's logprobs with one token of one prompt at two temperatures. An engine that refuses,
 * fails or stays silent is `unknown`, which is no fault of later rollouts. An unavailable one, and one that denies key,
 * model or route, throws its fault, as for any other request.
 */
export async function probeLogprobsMode(
  service: Pick<GenerationService, 'generate'>,
  model: string,
): Promise<LogprobsMode> {
  try {
    const [one, quarter] = await Promise.all(
      TEMPERATURES.map((temperature) => likeliestAt(temperature, { service, model })),
    );
    return one === undefined || quarter === undefined ? 'unknown' : modeOf(one, quarter);
  } catch (error) {
    const isAway =
      error instanceof Fault && error.type === 'GenerationUnavailable' && error.status === null;
    if (isAway || isDenial(error)) throw error;
    return 'unknown';
  }
}

/** A paused replica does not answer until it is resumed. */
export const probeUnlessPaused = async (
  service: GenerationService,
  model: string,
): Promise<LogprobsMode> =>
  (await service.isPaused()) ? 'unknown' : await probeLogprobsMode(service, model);

async function likeliestAt(
  temperature: number,
  { service, model }: { service: Pick<GenerationService, 'generate'>; model: string },
): Promise<Logprobs> {
  const found = new Map<number, number>();
  await service.generate(probeRequest({ model, temperature }), {
    signal: AbortSignal.timeout(LONGEST_MS),
    onDelta: ({ top_logprobs = [] }) => {
      for (const [id, logprob] of top_logprobs.flat()) found.set(id, logprob);
    },
  });
  return found;
}

export const probeRequest = (
  asked: Pick<GenerationRequest, 'model' | 'temperature'>,
): GenerationRequest => ({ ...PROBE, ...asked, request_id: `probe.${asked.temperature}` });

const PROBE = {
  ...GenerationSettings.parse({ top_logprobs: TOP }),
  prompt_ids: PROMPT_IDS,
  max_tokens: 1,
  // A seed of its own, so it takes no draw from requests without a seed.
  seed: 0,
  logprobs: true,
  session_id: 'probe',
};

/** Compares distances between the likeliest ids, which do not depend on the other ids. */
function modeOf(one: Logprobs, quarter: Logprobs): LogprobsMode {
  const both = [...one.keys()].filter((id) => quarter.has(id));
  const spread = (of: Logprobs): number => {
    const logprobs = both.map((id) => of.get(id) ?? 0);
    return Math.max(...logprobs) - Math.min(...logprobs);
  };
  if (both.length < 2 || spread(one) < LEAST_SPREAD) return 'unknown';
  const ratio = spread(quarter) / spread(one);
  if (ratio < RAW_BELOW) return 'raw';
  return ratio > PROCESSED_ABOVE ? 'processed' : 'unknown';
}
