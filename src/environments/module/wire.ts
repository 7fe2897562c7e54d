import type { FaultFacts, FaultType } from '../../model/faults.js';
import { Fault, FAULT_TYPES } from '../../model/faults.js';
import { describeError, shortened } from '../../platform/errors.js';
import type { Pair } from '../math/grader-process.js';
import { ownPlace, ownTrace } from './own-trace.js';

/**
 * Between a worker and the process of a module. Calls are HTTP, by the protocol of all environments. What that has no
 * words for are lines of JSON: the worker's first one is a `ModuleStart`.
 */

/** What the process loads. */
export interface ModuleStart {
  path: string;
  export: string;
  settings: Record<string, unknown>;
  /** The environment's name, for messages. */
  name: string;
  /** Every request has to bring it. */
  token: string;
}

export const OPTIONAL = ['begin', 'end', 'globalPostProcessAndMetrics', 'health', 'close'] as const;
/** Functions that a module may have. */
export const FUNCTIONS = ['stepOne', 'step', ...OPTIONAL] as const;
export type FunctionName = (typeof FUNCTIONS)[number];

/** Where the lines are, both ways. */
export const LINES_FD = 3;

/** Parts of a module's context that stay in the worker. */
export type Question =
  | { about: 'env'; variable: string }
  | { about: 'report'; message: string }
  | { about: 'retriever'; name: string }
  | { about: 'search'; name: string; query: string; options: { num_results?: number } | undefined }
  | { about: 'compare'; pair: Pair }
  | { about: 'grader_health' };

export type FromModule =
  | { kind: 'listening'; port: number }
  | { kind: 'ready'; has: FunctionName[] }
  | { kind: 'failed'; error: WireError }
  /** It is about to end. */
  | { kind: 'broken'; why: string }
  /** Answered by `POST /answered`; null: it waits for a line, an `Outcome`. */
  | { kind: 'ask'; ask: number | null; question: Question };

export type Outcome = { value: unknown } | { error: WireError };

/** The protocol's error, with all that matters of a fault. */
export interface WireError extends Pick<FaultFacts, 'at' | 'retryAfterMs'> {
  type: FaultType | 'Error';
  message: string;
  /** Frames of the module's own code; absent: none. */
  trace?: string;
}

/** The error of a module's code, in the worker. */
class ModuleError extends Error {
  readonly trace: string | null;

  constructor({ message, trace }: Pick<WireError, 'message' | 'trace'>) {
    super(message);
    this.trace = trace ?? null;
  }
}

/** An answer that is an error is kept up to 64 KiB. */
const MOST_CHARACTERS = 4000;

export function wireError(error: unknown): WireError {
  if (error instanceof Fault) {
    const { type, message, at, retryAfterMs } = error;
    const facts = { ...(at !== null && { at }), ...(retryAfterMs !== null && { retryAfterMs }) };
    return { type, message, ...facts };
  }
  const message = shortened(`${thrownText(error)}${ownPlace(error)}`, MOST_CHARACTERS);
  const trace = ownTrace(error);
  return {
    type: 'Error',
    message,
    ...(trace !== null && { trace: shortened(trace, MOST_CHARACTERS) }),
  };
}

/** With its class, unless that is plain `Error`: "TypeError: x is not a function". */
export function thrownText(error: unknown): string {
  const text = describeError(error);
  if (!(error instanceof Error) || error instanceof ModuleError || error.message === '')
    return text;
  const [name] = [error.name, error.constructor.name].filter((one) => one !== 'Error');
  return name === undefined ? text : `${name}: ${text}`;
}

export function errorOf({ type, ...facts }: WireError): Error {
  const fault = FAULT_TYPES.find((one) => one === type);
  return fault === undefined ? new ModuleError(facts) : new Fault({ ...facts, type: fault });
}
