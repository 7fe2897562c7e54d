import { undecodableProblem } from './undecodable.js';

/** Checks inputs of updates inside workflows, where zod is not available. */

/** An object with at least one of these fields, and no others. */
export function fieldsProblem(
  input: unknown,
  fields: Record<string, (value: unknown) => string | null>,
): string | null {
  const unread = undecodableProblem(input);
  if (unread !== null) return unread;
  const expected = `expected an object with ${Object.keys(fields).join(', ')}`;
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    return `${expected}, got ${quote(input)}`;
  const given = Object.entries(input);
  if (given.length === 0) return `${expected} (at least one), got {}`;
  for (const [name, value] of given) {
    const check = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (check === undefined) return `${name.slice(0, QUOTED)}: unknown field; ${expected}`;
    const problem = check(value);
    if (problem !== null) return `${name}: ${problem}`;
  }
  return null;
}

export function integerProblem(value: unknown, least: number): string | null {
  return Number.isSafeInteger(value) && (value as number) >= least
    ? null
    : `expected an integer of at least ${least}, got ${quote(value)}`;
}

const QUOTED = 80;

export function quote(value: unknown, most = QUOTED): string {
  if (value === undefined) return 'nothing';
  const text = JSON.stringify(value);
  return text.length > most ? `${text.slice(0, most)}…` : text;
}
