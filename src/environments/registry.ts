import { z } from 'zod';
import { Duration, toMs } from '../model/durations.js';
import { BaseUrl } from './base-url.js';
import { createCalculator } from './calculator/environment.js';
import { createCodeJaccard } from './code-jaccard/environment.js';
import type { Environment, EnvironmentContext } from './environment.js';
import { createHttpEnvironment } from './http.js';
import { createRetrieverEnvironment } from './retriever/environment.js';
import { RetrieverSettings, resolveRetrieverPaths } from './retriever/settings.js';
import { createRewardModel } from './reward-model/environment.js';
import { RewardModelSettings } from './reward-model/settings.js';
import { createSlidingPuzzle } from './sliding-puzzle/environment.js';
import { STEP_QUEUE } from './step-queue.js';

/** The kinds of environment that temporal.yaml can name. A new one is a schema here and a line in `createEnvironment`. */

const SlidingPuzzleSettings = z.strictObject({ kind: z.literal('sliding_puzzle') });
const CodeJaccardSettings = z.strictObject({ kind: z.literal('code_jaccard') });
const CalculatorSettings = z.strictObject({ kind: z.literal('calculator') });

const HttpSettings = z.strictObject({
  kind: z.literal('http'),
  url: BaseUrl,
  /** For one step, from connecting to the last byte of the answer. */
  timeout: Duration.default('5m'),
  ...STEP_QUEUE,
});

const KINDS = [
  SlidingPuzzleSettings,
  CodeJaccardSettings,
  CalculatorSettings,
  RetrieverSettings,
  RewardModelSettings,
  HttpSettings,
] as const;

export const EnvironmentSettings = z.discriminatedUnion('kind', KINDS, {
  error: ({ input }) => describeKind(input),
});
export type EnvironmentSettings = z.infer<typeof EnvironmentSettings>;

/** undefined leaves zod's own text, for settings that are no object. */
function describeKind(settings: unknown): string | undefined {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    return undefined;
  const kind = 'kind' in settings ? settings.kind : undefined;
  const problem =
    kind === undefined ? 'required' : `unknown environment kind ${JSON.stringify(kind)}`;
  return `${problem}; known kinds: ${knownKinds()}`;
}

const knownKinds = (): string => KINDS.map(({ shape }) => shape.kind.value).join(', ');

/** Are its turns played beside the generation? What `in_process` of the environment will say. */
export function isInProcess(settings: EnvironmentSettings): boolean {
  switch (settings.kind) {
    case 'sliding_puzzle':
    case 'code_jaccard':
    case 'calculator':
    case 'retriever':
      return true;
    case 'reward_model':
    case 'http':
      return false;
  }
}

/** The settings with paths relative to temporal.yaml's folder made absolute. */
export function resolvePaths(
  settings: EnvironmentSettings,
  directory: string,
): EnvironmentSettings {
  switch (settings.kind) {
    case 'retriever':
      return resolveRetrieverPaths(settings, directory);
    case 'sliding_puzzle':
    case 'code_jaccard':
    case 'calculator':
    case 'reward_model':
    case 'http':
      return settings;
  }
}

export async function createEnvironment(
  settings: EnvironmentSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  switch (settings.kind) {
    case 'sliding_puzzle':
      return createSlidingPuzzle();
    case 'code_jaccard':
      return createCodeJaccard();
    case 'calculator':
      return createCalculator();
    case 'retriever':
      return createRetrieverEnvironment(await context.retriever(context.name));
    case 'reward_model':
      return createRewardModel(settings, { api_key: apiKeyOf(settings, context) });
    case 'http':
      return createHttpEnvironment({ url: settings.url, timeout_ms: toMs(settings.timeout) });
  }
}

/** Secrets are named in the settings, never written: not there, and so not in history, journal or log. */
function apiKeyOf(
  { api_key_env }: { api_key_env: string | null },
  { name, env }: Pick<EnvironmentContext, 'name' | 'env'>,
): string | null {
  if (api_key_env === null) return null;
  const key = env(api_key_env);
  if (key !== undefined && key !== '') return key;
  throw new Error(
    `environments.${name}.api_key_env: expected the environment variable ${api_key_env} to hold the key, it is not set`,
  );
}
