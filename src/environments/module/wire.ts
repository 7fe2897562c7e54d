import { z } from 'zod';
import type { FaultType } from '../../model/faults.js';

/** What a worker and the process of a module tell each other besides the calls, which are HTTP. */

/** Holds a `ModuleStart`. */
export const START_VARIABLE = 'ROLLOUT_MODULE';
/** The process writes lines of `News` here, at once: also the last one before a loop. */
export const NEWS_FD = 3;
/** Time limit for a module that holds its process while it is loaded: compiling TypeScript does so for a while. */
export const LOAD_MS = 10_000;
/** The header with the number of a call. */
export const CALL_HEADER = 'rollout-call';

export interface ModuleStart {
  path: string;
  export: string;
  settings: Record<string, unknown>;
  name: string;
  /** The settings of all environments: retrievers are opened by them. */
  environments: Record<string, { kind: string }>;
  token: string;
  /** Its end is the process's. */
  worker: number;
  timeout_ms: number;
  /** How long a loop may hold the process until another one begins the other calls; null: always. */
  patience_ms: number | null;
}

export const OPTIONAL = ['begin', 'end', 'globalPostProcessAndMetrics', 'health', 'close'] as const;
export const FUNCTIONS = ['stepOne', 'step', ...OPTIONAL] as const;
export type FunctionName = (typeof FUNCTIONS)[number];

export const News = z.discriminatedUnion('kind', [
  z.object({ kind: z.literal('ready'), port: z.int(), has: z.array(z.enum(FUNCTIONS)) }),
  z.object({ kind: z.literal('failed'), message: z.string() }),
  z.object({ kind: z.literal('began'), call: z.int() }),
  z.object({ kind: z.literal('left') }),
  /** It ends now, since its code holds it beyond a deadline. */
  z.object({ kind: z.literal('held') }),
  z.object({ kind: z.literal('secret'), variable: z.string() }),
  z.object({ kind: z.literal('report'), message: z.string() }),
]);
export type News = z.infer<typeof News>;

export interface Refusal {
  type: FaultType;
  message: string;
  trace?: string;
}

export const subjectOf = ({
  path,
  export: name,
  name: environment,
}: Pick<ModuleStart, 'path' | 'export' | 'name'>): string =>
  `environment ${environment}: export ${name} of ${path}`;
