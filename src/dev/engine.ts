import { isDeepStrictEqual } from 'node:util';
import { checkEngines } from '../workers/check/check-deployment.js';
import type { Config } from '../workers/config.js';

/** The engine of the project's own temporal.yaml: where `temporal-rollout simulator` serves unless told otherwise. */
const OF_SIMULATOR = ['http://127.0.0.1:8000/v1'];

/**
 * The base URLs of the engines that a temporal.yaml names; null: none, so that the simulator plays. `own`: whether it is
 * the project's.
 */
export function namedEngines(
  { generation }: Pick<Config, 'generation'>,
  { own }: { own: boolean },
): string[] | null {
  if (own && isDeepStrictEqual(generation['default']?.base_urls, OF_SIMULATOR)) return null;
  const urls = Object.values(generation).flatMap(({ base_urls }) => base_urls);
  return urls.length === 0 ? null : urls;
}

/** So long a start waits for the answers of engines. */
const ANSWER_WITHIN_MS = 4000;

/** What keeps the engines of these settings from playing, a line each, and what to do. */
export async function engineFaults(config: Config, env: NodeJS.ProcessEnv): Promise<string[]> {
  const found = await checkEngines(config, { env, within_ms: ANSWER_WITHIN_MS });
  const broken = found.filter(({ state }) => state === 'broken');
  return broken.map(({ part, what, remedy = '' }) => `${part}: ${what}; ${remedy}`);
}
