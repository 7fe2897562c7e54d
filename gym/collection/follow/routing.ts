import type { Json } from '../../json/exact.js';
import { formatJson, jsonNumber } from '../../json/exact.js';
import type { Members } from '../../../src/platform/json/members.js';
import { membersOf, objectText } from '../../../src/platform/json/members.js';
import {
  AGENT_REF,
  ATTEMPT_INDEX,
  FAILURE_CLASS,
  FAILURE_TERMINAL,
  ROLLOUT_ID,
  ROLLOUT_INDEX,
  SKILLS_REF,
  TASK_INDEX,
} from '../../keys.js';
import type { GymRow } from '../../row.js';
import { placeOf } from '../../row.js';

/** Which file a row's result goes to, as in upstream. */
export interface Routed {
  to: ReturnType<typeof placeOf>;
  row: GymRow;
  /** How often the row had failed before. */
  attempt: number;
  /** As text: an answer may have tens of megabytes, and its numbers keep their digits. */
  result: Members;
}

/** A `/run` without a result. */
export interface RunFailure {
  failure_class: string;
  /** Not played again, whatever attempts are left. */
  terminal: boolean;
  /** Type of the fault. */
  type: string | null;
  message: string;
  /** HTTP status of the answer, if there was one. */
  status: number | null;
}

interface RowAttempt {
  row: GymRow;
  attempt: number;
}

/** An agent's answer, known to be JSON, stamped with its row's data. Throws if it is not an object. */
export function routeAnswer({ row, attempt, text }: RowAttempt & { text: string }): Routed {
  const result = membersOf(text);
  if (result === null) throw new Error('expected a JSON object');
  return { to: placeOf(result), row, attempt, result: stamped(result, { row, attempt }) };
}

/**
 * A failed `/run` becomes a row of the failures file: its class and data for an investigation, without reward and
 * response, unless the agent answered and only its reward is no use: then also what it answered, so that somebody can
 * still score it. Readers that only count rows by their keys, such as upstream's resume, find what they need.
 */
export function routeFailure({
  row,
  attempt,
  failure,
  answer = new Map(),
}: RowAttempt & { failure: RunFailure; answer?: Members }): Routed {
  const { failure_class, terminal, type, message, status } = failure;
  const error = { type, message, status: status === null ? null : jsonNumber(status) };
  const result: Members = new Map([
    ...answer,
    [FAILURE_CLASS, formatJson(failure_class)],
    ...(terminal ? ([[FAILURE_TERMINAL, 'true']] as const) : []),
    ['error', formatJson(error)],
  ]);
  return { to: 'failures', row, attempt, result: stamped(result, { row, attempt }) };
}

/** One line: JSON may have line breaks between values, but not inside them. */
export const routedLine = ({ result }: Routed): string =>
  objectText(result).replaceAll(/[\r\n]+/g, '');

/** In upstream's order. A key that the agent answered keeps its place and loses its value, as in Python. */
function stamped(result: Members, { row: { row }, attempt }: RowAttempt): Members {
  const stamps: [string, Json | undefined][] = [
    [TASK_INDEX, row[TASK_INDEX]],
    [ROLLOUT_INDEX, row[ROLLOUT_INDEX]],
    [AGENT_REF, row[AGENT_REF]],
    [SKILLS_REF, row[SKILLS_REF]],
    [ATTEMPT_INDEX, attempt > 0 ? jsonNumber(attempt) : undefined],
    [ROLLOUT_ID, row[ROLLOUT_ID]],
  ];
  for (const [key, value] of stamps) {
    if (value !== undefined) result.set(key, formatJson(value));
  }
  return result;
}
