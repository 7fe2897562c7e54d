import type { z } from 'zod';
import type { Environment, ExactEnvironment } from './environment.js';
import { withPlainMetadata } from './plain-metadata.js';
import type { Allowance } from '../platform/waits/allowance.js';
import type { GraderPool } from './math/grader-pool.js';
import type { Retriever } from './retriever/retriever.js';
import { Positive, Word } from '../model/field-kinds.js';

type KindSchema = z.ZodObject<{ kind: z.ZodLiteral<string> }>;

/** A kind of environment: all that the rest of the project knows of it. Each folder has one, in its `kind.ts`. */
export interface Kind<S extends KindSchema> {
  settings: S;
  /**
   * Who answers a turn. The worker's own process plays it next to the generation, many in one activity. All others have
   * their own activity: what runs on the worker's machine, and a service, which all workers reach alike.
   */
  answers: (settings: z.infer<S>) => 'in process' | 'on this machine' | 'a service';
  /** Roles of its observations; null: unknown, for foreign programs. An agent needs none. */
  roles: readonly string[] | null;
  /** The settings with paths relative to temporal.yaml's folder made absolute; absent: it has no paths. */
  resolve?: (settings: z.infer<S>, directory: string) => z.infer<S>;
  /** Throws an error that names the environment and the problem of its settings. */
  make: (
    settings: z.infer<S>,
    context: EnvironmentContext,
  ) => ExactEnvironment | Promise<ExactEnvironment>;
}

export const defineKind = <S extends KindSchema>(kind: Kind<S>): Kind<S> => kind;

export const inJavaScript =
  <S>(make: (settings: S, context: EnvironmentContext) => Environment | Promise<Environment>) =>
  async (settings: S, context: EnvironmentContext): Promise<ExactEnvironment> =>
    withPlainMetadata(await make(settings, context), context.name);

export interface EnvironmentContext {
  /** Its key under `environments`, used in messages. */
  name: string;
  environments: Record<string, { kind: string }>;
  /** Shared by the environments of a worker; the worker closes it. */
  grader: GraderPool;
  /** Also shared: the allowance for large answers. */
  answers: Allowance;
  report: (message: string) => void;
  /** The value of a variable that the settings name, treated as a secret; undefined if it is not set. */
  env: (variable: string) => string | undefined;
  /** Search as a tool: the environment of kind `retriever` with this name. Throws if none can be opened. */
  retriever: (name: string) => Promise<Retriever>;
}

/** Settings of every environment whose steps are separate activities. */
export const STEP_QUEUE = {
  task_queue: Word.optional().describe(
    "task queue of its steps; absent: the deployment's queue of environments",
  ),
  max_concurrent: Positive.optional().describe('steps at once, per worker'),
};
