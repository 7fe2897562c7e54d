import path from 'node:path';
import { z } from 'zod';
import { Duration } from '../model/durations.js';
import { BaseUrl } from './http/base-url.js';
import { TOKEN } from './http/token.js';
import { CODE_SETTINGS } from './code/settings.js';
import { GymAgentSettings } from './gym-agent/settings.js';
import { GymnasiumSettings } from './gymnasium/settings.js';
import { isPureVerifier, MATH_SETTINGS } from './math/settings.js';
import { RetrieverSettings, resolveRetrieverPaths } from './retriever/settings.js';
import { RewardModelSettings } from './reward-model/settings.js';
import { didYouMean } from '../platform/nearest.js';
import { MAX_ANSWER, MaxAnswer } from '../platform/size.js';
import { STEP_QUEUE } from './step-queue.js';
import { needsGrader, VLM_SETTINGS } from './vlm/settings.js';

/**
 * The kinds of environment that temporal.yaml can name. A new one is a schema here, a case in the functions below, and
 * one in `createEnvironment` (registry.ts).
 */

const SlidingPuzzleSettings = z.strictObject({
  kind: z.literal('sliding_puzzle').describe("NeMo RL's sliding puzzle"),
});
const CalculatorSettings = z.strictObject({
  kind: z.literal('calculator').describe("NeMo RL's multi-step calculator"),
});
const CodeJaccardSettings = z.strictObject({
  kind: z.literal('code_jaccard').describe('similarity to the ground truth, by words'),
});
const MathSettings = z.strictObject({ ...MATH_SETTINGS, ...STEP_QUEUE });
const VlmSettings = z.strictObject({ ...VLM_SETTINGS, ...STEP_QUEUE });

const CodeSettings = z.strictObject({
  kind: z.literal('code').describe("runs the policy's code in a sandbox"),
  ...CODE_SETTINGS,
  url: BaseUrl.nullable().default(null).describe('a sandbox service instead of this machine'),
  ...TOKEN,
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer of that service'),
  ...STEP_QUEUE,
});

const HttpSettings = z.strictObject({
  kind: z.literal('http').describe('a service of yours'),
  url: BaseUrl.describe(
    'its base: `/step`, `/begin`, `/end`, `/health` and `/global_post_process_and_metrics` are appended',
  ),
  ...TOKEN,
  timeout: Duration.default('5m').describe(
    'for one call, from connecting to the last byte of the answer',
  ),
  max_answer: MaxAnswer.default(MAX_ANSWER).describe('size limit of one answer'),
  ...STEP_QUEUE,
});

/** Python environments are services. */
function pythonIsServed(file: string): string {
  const name = path.basename(file, '.py');
  return `expected a TypeScript or JavaScript file, got ${JSON.stringify(file)}; for Python write { kind: http, url: http://127.0.0.1:9000 } and run, in its folder, python -m rollout_environment ${name}:CLASS --port 9000 (docs/python-environments.md)`;
}

const ModuleSettings = z.strictObject({
  kind: z.literal('module').describe('a module of yours, which the worker loads'),
  path: z
    .string()
    .min(1)
    .refine((text) => !text.endsWith('.py'), {
      error: ({ input }) => pythonIsServed(String(input)),
    })
    .describe('a TypeScript or JavaScript file'),
  export: z
    .string()
    .min(1)
    .default('default')
    .describe('an object with `stepOne` or `step`, or a function of `settings` that makes one'),
  settings: z.record(z.string(), z.unknown()).default({}).describe('the argument of that function'),
  in_process: z
    .boolean()
    .default(true)
    .describe(
      'false: it waits for something (a service, a process), and its steps are separate activities',
    ),
  timeout: Duration.default('1m').describe(
    "for one call, from the moment when the module's thread begins it",
  ),
  ...STEP_QUEUE,
});

const KINDS = [
  SlidingPuzzleSettings,
  MathSettings,
  CodeSettings,
  VlmSettings,
  RetrieverSettings,
  CodeJaccardSettings,
  RewardModelSettings,
  CalculatorSettings,
  HttpSettings,
  GymAgentSettings,
  GymnasiumSettings,
  ModuleSettings,
] as const;

export const EnvironmentSettings = z.discriminatedUnion('kind', KINDS, {
  error: ({ input }) => describeKind(input),
});
export type EnvironmentSettings = z.infer<typeof EnvironmentSettings>;

/** Kinds that need no other setting. */
export const BARE_KINDS: readonly string[] = KINDS.map(({ shape }) => shape.kind.value).filter(
  (kind) => EnvironmentSettings.safeParse({ kind }).success,
);

/** undefined keeps zod's own message, for settings that are not an object. */
function describeKind(settings: unknown): string | undefined {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    return undefined;
  const kind = 'kind' in settings ? settings.kind : undefined;
  const known = KINDS.map(({ shape }) => shape.kind.value);
  const problem =
    kind === undefined ? 'required' : `unknown environment kind ${JSON.stringify(kind)}`;
  const hint = typeof kind === 'string' ? didYouMean(kind, known) : '';
  return `${problem}; known kinds: ${known.join(', ')}${hint}`;
}

/** True if its turns are played next to the generation: the value of the environment's `in_process`. */
export function isInProcess(settings: EnvironmentSettings): boolean {
  switch (settings.kind) {
    case 'sliding_puzzle':
    case 'retriever':
    case 'code_jaccard':
    case 'calculator':
      return true;
    case 'code':
    case 'reward_model':
    case 'http':
    case 'gym_agent':
    case 'gymnasium':
      return false;
    case 'math':
      return isPureVerifier(settings.verifier);
    case 'vlm':
      return !settings.reward_functions.some(needsGrader);
    case 'module':
      return settings.in_process;
  }
}

/** True if it needs a service, which all workers reach alike; false if it needs only the worker's machine. */
export function isRemote(settings: EnvironmentSettings): boolean {
  switch (settings.kind) {
    case 'http':
    case 'gymnasium':
    case 'reward_model':
    case 'gym_agent':
      return true;
    case 'code':
      return settings.url !== null;
    case 'sliding_puzzle':
    case 'retriever':
    case 'code_jaccard':
    case 'calculator':
    case 'math':
    case 'vlm':
    case 'module':
      return false;
  }
}

/** Roles of its observations; null: unknown, for foreign programs. An agent needs none. */
export function observationRoles({ kind }: EnvironmentSettings): readonly string[] | null {
  switch (kind) {
    case 'http':
    case 'module':
      return null;
    case 'gymnasium':
      return ['user'];
    case 'gym_agent':
      return [];
    case 'sliding_puzzle':
    case 'retriever':
    case 'code_jaccard':
    case 'calculator':
    case 'math':
    case 'vlm':
    case 'code':
    case 'reward_model':
      return ['environment'];
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
    case 'module':
      return { ...settings, path: path.resolve(directory, settings.path) };
    case 'code': {
      const { python } = settings;
      const isPath = python?.includes(path.sep) === true;
      return isPath ? { ...settings, python: path.resolve(directory, python) } : settings;
    }
    default:
      return settings;
  }
}
