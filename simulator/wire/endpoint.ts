import type { CompletionParts } from '../completions/completions.js';
import type { FaultSpec } from '../settings.js';
import type { Exchange } from './http-exchange.js';

/** Answers a request, with or without a fault. */
export type Endpoint = (exchange: Exchange, fault: FaultSpec | null) => void | Promise<void>;

/** By path and method. */
export type Endpoints = Readonly<Record<string, Readonly<Record<string, Endpoint>>>>;

/** What a dialect's endpoints are made of. */
export interface EndpointParts extends CompletionParts {
  /** Resolves when this fault has been cleared. */
  cleared: (fault: FaultSpec) => Promise<void>;
  /** When this engine began, which no other did. */
  started_s: number;
}

/** Those that sample count tokens, and so treat faults themselves. */
export interface DialectEndpoints {
  sampling: Endpoints;
  plain: Endpoints;
}
