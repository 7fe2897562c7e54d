import type { Allowance } from '../platform/waits/allowance.js';
import type { GraderPool } from './math/grader-pool.js';
import type { Retriever } from './retriever/retriever.js';

/** What an environment may need besides its settings. */
export interface EnvironmentContext {
  /** Its key under `environments`, used in messages. */
  name: string;
  /** The settings of all environments, by name. */
  environments: Record<string, { kind: string }>;
  /** Shared by the environments of a worker; the worker closes it. */
  grader: GraderPool;
  /** Also shared: the allowance for large answers. */
  answers: Allowance;
  /** Reports something about it to the operator. */
  report: (message: string) => void;
  /** The value of a variable that the settings name, treated as a secret; undefined if it is not set. */
  env: (variable: string) => string | undefined;
  /**
   * Search as a tool: opens the environment of kind `retriever` with this name. Its index is built once per worker.
   * Throws if temporal.yaml has none of that name or its corpus cannot be read.
   */
  retriever: (name: string) => Promise<Retriever>;
}
