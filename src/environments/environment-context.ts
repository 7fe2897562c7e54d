import type { Allowance } from '../platform/allowance.js';
import type { GraderPool } from './math/grader-pool.js';
import type { Retriever } from './retriever/retriever.js';

/** What making an environment may need beside its settings. */
export interface EnvironmentContext {
  /** Its key under `environments`: how messages name it. */
  name: string;
  /** Shared by the environments of a worker; the worker closes it. */
  grader: GraderPool;
  /** Also shared: room for large answers. */
  answers: Allowance;
  /** Tells the operator something about it. */
  report: (message: string) => void;
  /** The value of a variable that the settings name, which counts as a secret; undefined where it is not set. */
  env: (variable: string) => string | undefined;
  /**
   * Search as a tool: opens the environment of kind `retriever` of this name. Its index is built once per worker, for
   * all that ask. Throws where temporal.yaml has none of that name, or its corpus cannot be read.
   */
  retriever: (name: string) => Promise<Retriever>;
}
