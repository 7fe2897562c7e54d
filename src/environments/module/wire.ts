import type { MessagePort } from 'node:worker_threads';
import type { FaultFacts } from '../../model/faults.js';
import { Fault } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import type { Metadata, Named, StepContext, Turn } from '../environment.js';
import { ownPlace, ownTrace } from './own-trace.js';
import type { SessionSample } from './authoring.js';
import type { Pair } from '../math/grader-process.js';

/** Messages between a worker and the thread of a module: structured clones. */

/** Arguments of the thread. */
export interface ThreadStart {
  path: string;
  export: string;
  settings: Record<string, unknown>;
  /** The environment's name, for messages. */
  name: string;
}

export interface ThreadFlags {
  /** 1: another thread begins the calls that wait here. A loop holds up messages, so this is shared memory. */
  left: Int32Array<SharedArrayBuffer>;
}

export const OPTIONAL = ['begin', 'end', 'globalPostProcessAndMetrics', 'health', 'close'] as const;
/** Functions that a module may have. */
export const FUNCTIONS = ['stepOne', 'step', ...OPTIONAL] as const;
export type FunctionName = (typeof FUNCTIONS)[number];

export type CallBody =
  | { call: 'step'; turn: Turn; context: Named & Pick<StepContext, 'was_asked'> }
  | { call: 'begin'; sample: SessionSample }
  | { call: 'end'; metadata: Metadata; session: string }
  /** Its rollouts are requested one by one: `next_rollout`. */
  | { call: 'globalPostProcessAndMetrics' }
  | { call: 'health' }
  | { call: 'close' };

export type ToThread =
  | { kind: 'call'; id: number; body: CallBody }
  | { kind: 'abort'; id: number }
  | { kind: 'ping' }
  | { kind: 'answered'; ask: number; answer: Outcome };

/** Parts of the module's context and arguments that stay in the worker. */
export type Question =
  | { about: 'env'; variable: string }
  | { about: 'report'; message: string }
  | { about: 'retriever'; name: string }
  | { about: 'search'; name: string; query: string; options: { num_results?: number } | undefined }
  | { about: 'compare'; pair: Pair }
  | { about: 'grader_health' }
  | { about: 'next_rollout'; call: number };

export type FromThread =
  | { kind: 'ready'; has: FunctionName[] }
  | { kind: 'failed'; error: WireError }
  | { kind: 'started'; id: number }
  | { kind: 'ended'; id: number; outcome: Outcome }
  | { kind: 'pong' }
  | { kind: 'ask'; ask: number; question: Question }
  /** The thread blocks until the answer comes through the port; the flag wakes it. */
  | { kind: 'ask_now'; question: Question; port: MessagePort; flag: SharedArrayBuffer };

export type Outcome = { value: unknown } | { error: WireError };

/** An error as a clone: everything that matters of a fault, the text of any other. */
export interface WireError {
  message: string;
  fault: Pick<FaultFacts, 'type' | 'at' | 'retryAfterMs'> | null;
  /** Frames of the module's own code; null: none. */
  trace: string | null;
}

/** The error of a module's code, in the worker. */
class ModuleError extends Error {
  readonly trace: string | null;

  constructor({ message, trace }: Pick<WireError, 'message' | 'trace'>) {
    super(message);
    this.trace = trace;
  }
}

export function wireError(error: unknown): WireError {
  const trace = ownTrace(error);
  if (!(error instanceof Fault))
    return { message: `${thrownText(error)}${ownPlace(error)}`, fault: null, trace };
  const { type, message, at, retryAfterMs } = error;
  const facts = { ...(at !== null && { at }), ...(retryAfterMs !== null && { retryAfterMs }) };
  return { message, fault: { type, ...facts }, trace: null };
}

/** With its class, unless that is plain `Error`: "TypeError: x is not a function". */
export function thrownText(error: unknown): string {
  const text = describeError(error);
  if (!(error instanceof Error) || error instanceof ModuleError || error.message === '')
    return text;
  const [name] = [error.name, error.constructor.name].filter((one) => one !== 'Error');
  return name === undefined ? text : `${name}: ${text}`;
}

export const errorOf = ({ message, fault, trace }: WireError): Error =>
  fault === null ? new ModuleError({ message, trace }) : new Fault({ ...fault, message });

/** For an answer that cannot be cloned (for example a function) or serialised. */
export const unstorable = (subject: string, error: unknown): Fault =>
  new Fault({
    type: 'EnvironmentRejected',
    message: `${subject} answered what no JSON can hold: ${describeError(error)}`,
  });

/** What a thread reports about its calls. */
export type CallNews = Exclude<FromThread, { kind: 'ready' | 'failed' | 'pong' }>;
