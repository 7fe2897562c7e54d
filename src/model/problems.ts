import type { z } from 'zod';
import { withoutSecrets } from '../platform/secrets.js';
import { Fault } from './faults.js';
import { cutToBytes } from '../platform/utf8.js';
import { writeJson } from '../platform/json/kept.js';
import { plainLine } from '../platform/plain.js';
import { undecodableProblem } from './workflow-safe/undecodable.js';

const MAX_PROBLEMS = 10;
const MAX_BYTES = 2800;
const MAX_BYTES_EACH = 500;

/** One problem of an input: where, what was expected, and what came. */
export interface Problem {
  /** A field path such as `generation.top_p`, or `row 3: message_log.0.role`. */
  where: string;
  what: string;
}

/** Zod's issues by field path. They quote the values that came, because "expected number" alone is hard to find. */
export function problemsOf(error: z.ZodError, input: unknown): Problem[] {
  const unread = undecodableProblem(input);
  if (unread !== null) return [{ where: '(input)', what: unread }];
  return error.issues.flatMap((issue) => flatten(issue, input));
}

function flatten(issue: z.core.$ZodIssue, input: unknown): Problem[] {
  const where = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.slice(0, MAX_PROBLEMS + 1).map((key) => ({
      where: [where, key].filter((part) => part !== '').join('.'),
      what: 'unknown field',
    }));
  }
  const got = valueAt(input, issue.path);
  // Only zod calls an object with any keys a record.
  const said = issue.message
    .replace(/^Invalid input: /, '')
    .replace(/^expected record\b/, 'expected object');
  const quoted = /\bgot\b|unknown|required/.test(said)
    ? said
    : `${stripReceived(said)}, got ${preview(got)}`;
  return [{ where: where === '' ? '(input)' : where, what: quoted }];
}

const stripReceived = (text: string): string => text.replace(/, received .*$/, '');

function valueAt(input: unknown, path: readonly PropertyKey[]): unknown {
  let value = input;
  for (const key of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    value = (value as Record<PropertyKey, unknown>)[key];
  }
  return value;
}

export function preview(value: unknown): string {
  if (value === undefined) return 'nothing';
  // JSON would show NaN and Infinity as null.
  if (typeof value === 'number' || typeof value === 'bigint') return String(value);
  return cutToBytes(withoutSecrets(textOf(value)), 80);
}

const MOST_NAMES = 8;

/** Names that others chose, as a message quotes them: a comma or a space in one of them misleads nobody. */
export function previews(names: readonly string[]): string {
  const more = names.length - MOST_NAMES;
  const quoted = names.slice(0, MOST_NAMES).map(preview).join(', ');
  return more > 0 ? `${quoted} and ${more} more` : quoted;
}

/** The value as JSON. Functions, cycles and deep nesting have no such text. */
export function textOf(value: unknown): string {
  try {
    if (value === undefined || typeof value === 'function' || typeof value === 'symbol')
      return String(value);
    return writeJson(value);
  } catch {
    return Object.prototype.toString.call(value);
  }
}

/** One problem is one line, even if it quotes newlines. */
export const lineOf = ({ where, what }: Problem): string => plainLine(`${where}: ${what}`);

/** At most ten problems and 3 kB, for the Web UI and history. `is_all`: false if there may be others. */
export function invalidBatchRequest(problems: Problem[], { is_all = true } = {}): Fault {
  const lines = problems
    .slice(0, MAX_PROBLEMS)
    .map((problem) => cutToBytes(lineOf(problem), MAX_BYTES_EACH));
  const more = problems.length - MAX_PROBLEMS;
  if (more > 0) lines.push(is_all ? `… and ${more} more` : '… and more');
  return new Fault({
    type: 'InvalidBatchRequest',
    message: cutToBytes(lines.join('\n'), MAX_BYTES),
  });
}
