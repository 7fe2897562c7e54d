/** The bundle of workflows has its own copy of this file. */
const BRAND: unique symbol = Symbol.for('durable_rollouts.undecodable');

/**
 * What came in place of a value: a payload that nobody here can read, because it is no JSON (`NaN`), or another client's
 * codec has written it. Every check at an edge refuses it; an exception while it is decoded would fail the workflow task
 * again and again.
 */
export interface Undecodable {
  readonly [BRAND]: true;
  /** What was expected, what came, and the next step. */
  readonly problem: string;
  /** As it came, to be passed on. */
  readonly payload: unknown;
  /** Within another value. */
  toJSON: () => unknown;
}

const NEXT =
  "send JSON by Temporal's default data converter, without a codec (NaN and Infinity are no JSON, though Python writes them)";

/** `what` came, such as `encoding binary/encrypted`. */
export function undecodable(what: string, payload: unknown): Undecodable {
  const problem = `expected JSON, got ${what}; ${NEXT}`;
  return { [BRAND]: true, problem, payload, toJSON: () => ({ undecodable: problem }) };
}

export const isUndecodable = (value: unknown): value is Undecodable =>
  typeof value === 'object' && value !== null && BRAND in value;

/** null: it can be read. */
export const undecodableProblem = (value: unknown): string | null =>
  isUndecodable(value) ? value.problem : null;
