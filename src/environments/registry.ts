import { z } from 'zod';
import { didYouMean } from '../platform/nearest.js';
import { agent } from './agent/kind.js';
import { calculator } from './calculator/kind.js';
import { codeJaccard } from './code-jaccard/kind.js';
import { code } from './code/kind.js';
import type { ExactEnvironment } from './environment.js';
import { gymAgent } from './gym-agent/kind.js';
import { gymnasium } from './gymnasium/kind.js';
import { http } from './http/kind.js';
import type { Kind, EnvironmentContext } from './kind.js';
import { math } from './math/kind.js';
import { userModule } from './module/kind.js';
import { retriever } from './retriever/kind.js';
import { rewardModel } from './reward-model/kind.js';
import { slidingPuzzle } from './sliding-puzzle/kind.js';
import { vlm } from './vlm/kind.js';

/** The kinds of environment that temporal.yaml can name. A new one is a folder with a `kind.ts`, and its name here. */
const KINDS = [
  slidingPuzzle,
  math,
  code,
  vlm,
  retriever,
  codeJaccard,
  rewardModel,
  calculator,
  http,
  gymAgent,
  agent,
  gymnasium,
  userModule,
] as const;

type SchemasOf<Kinds extends readonly { settings: unknown }[]> = {
  -readonly [I in keyof Kinds]: Kinds[I]['settings'];
};

const SCHEMAS = KINDS.map(({ settings }) => settings) as unknown as SchemasOf<typeof KINDS>;
const NAMES: readonly string[] = SCHEMAS.map(({ shape }) => shape.kind.value);

export const EnvironmentSettings = z.discriminatedUnion('kind', SCHEMAS, {
  error: ({ input }) => describeKind(input),
});
export type EnvironmentSettings = z.infer<typeof EnvironmentSettings>;

export const BARE_KINDS: readonly string[] = NAMES.filter(
  (kind) => EnvironmentSettings.safeParse({ kind }).success,
);

/** undefined keeps zod's own message, for settings that are not an object. */
function describeKind(settings: unknown): string | undefined {
  if (typeof settings !== 'object' || settings === null || Array.isArray(settings))
    return undefined;
  const kind = 'kind' in settings ? settings.kind : undefined;
  const problem =
    kind === undefined ? 'required' : `unknown environment kind ${JSON.stringify(kind)}`;
  const hint = typeof kind === 'string' ? didYouMean(kind, NAMES) : '';
  return `${problem}; known kinds: ${NAMES.join(', ')}${hint}`;
}

/** Settings that were parsed have a kind, and it is their own. */
const kindOf = (settings: EnvironmentSettings): Kind<(typeof SCHEMAS)[number]> =>
  KINDS[NAMES.indexOf(settings.kind)] as never;

export const isInProcess = (settings: EnvironmentSettings): boolean =>
  kindOf(settings).answers(settings) === 'in process';

/** True if it needs a service, which all workers reach alike; false if it needs only the worker's machine. */
export const isRemote = (settings: EnvironmentSettings): boolean =>
  kindOf(settings).answers(settings) === 'a service';

export const observationRoles = (settings: EnvironmentSettings): readonly string[] | null =>
  kindOf(settings).roles;

/** The settings with paths relative to temporal.yaml's folder made absolute. */
export const resolvePaths = (
  settings: EnvironmentSettings,
  directory: string,
): EnvironmentSettings => kindOf(settings).resolve?.(settings, directory) ?? settings;

/** Creates an environment of temporal.yaml. Throws an error that names it and the problem of its settings. */
export const createEnvironment = async (
  settings: EnvironmentSettings,
  context: EnvironmentContext,
): Promise<ExactEnvironment> => kindOf(settings).make(settings, context);
