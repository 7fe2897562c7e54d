import type { z } from 'zod';
import type { EnvironmentContext } from './environment-context.js';
import type { Environment, ExactEnvironment } from './environment.js';
import { withPlainMetadata } from './plain-metadata.js';

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
