import type { Allowance } from '../platform/waits/allowance.js';
import type { GraderPool } from './math/grader-pool.js';
import type { Retriever } from './retriever/retriever.js';

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
