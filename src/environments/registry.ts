import path from 'node:path';
import { z } from 'zod';
import { Duration, toMs } from '../model/durations.js';
import type { Environment, EnvironmentContext } from './environment.js';
import { createHttpEnvironment } from './http.js';
import { createModuleEnvironment } from './module.js';
import { createSlidingPuzzle } from './sliding-puzzle/environment.js';

/** The kinds of environment that temporal.yaml can name. A new one is a schema here and a line in `createEnvironment`. */

const SlidingPuzzleSettings = z.strictObject({ kind: z.literal('sliding_puzzle') });

const BaseUrl = z.string().superRefine((text, context) => {
  const message = urlProblem(text);
  if (message !== null) context.addIssue({ code: 'custom', message });
});

/**
 * Paths are appended to the URL, and messages show it: hence no query and no credentials. The texts that say
 * "got" themselves keep the report from quoting a value that may be secret.
 */
function urlProblem(text: string): string | null {
  const example = 'expected a URL such as http://127.0.0.1:9000';
  if (!URL.canParse(text) || /\s/.test(text)) return example;
  const { protocol, username, password } = new URL(text);
  if (username !== '' || password !== '') {
    return 'expected a URL without user name and password, got one with';
  }
  if (/[?#]/.test(text)) return 'expected a URL without query and fragment, got one with';
  return ['http:', 'https:'].includes(protocol) ? null : example;
}

/** Of every environment whose steps are activities of their own. */
const STEP_QUEUE = {
  /** Its steps go to this queue instead of the deployment's environment queue. */
  task_queue: z.string().min(1).optional(),
  /** Steps of it at once, per worker. */
  max_concurrent: z.int().positive().optional(),
};

const HttpSettings = z.strictObject({
  kind: z.literal('http'),
  url: BaseUrl,
  /** For one step, from connecting to the last byte of the answer. */
  timeout: Duration.default('5m'),
  ...STEP_QUEUE,
});

const ModuleSettings = z.strictObject({
  kind: z.literal('module'),
  /** A TypeScript or JavaScript file. */
  path: z.string().min(1),
  export: z.string().min(1).default('default'),
  /** Given to the export where that is a function. */
  settings: z.record(z.string(), z.unknown()).default({}),
  /** false: it waits for something (a service, a process), and its steps are activities of their own. */
  in_process: z.boolean().default(true),
  ...STEP_QUEUE,
});

const KINDS = [SlidingPuzzleSettings, HttpSettings, ModuleSettings] as const;

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
      return true;
    case 'http':
      return false;
    case 'module':
      return settings.in_process;
  }
}

/** The settings with paths relative to temporal.yaml's folder made absolute. */
export function resolvePaths(
  settings: EnvironmentSettings,
  directory: string,
): EnvironmentSettings {
  switch (settings.kind) {
    case 'sliding_puzzle':
    case 'http':
      return settings;
    case 'module':
      return { ...settings, path: path.resolve(directory, settings.path) };
  }
}

export async function createEnvironment(
  settings: EnvironmentSettings,
  context: EnvironmentContext,
): Promise<Environment> {
  switch (settings.kind) {
    case 'sliding_puzzle':
      return createSlidingPuzzle();
    case 'http':
      return createHttpEnvironment({ url: settings.url, timeout_ms: toMs(settings.timeout) });
    case 'module':
      return await createModuleEnvironment(settings, context);
  }
}
