import { z } from 'zod';
import { END_OF_SEQUENCE, FIRST_CHARACTER, encode, visibleText } from './characters.js';

/**
 * The scripts of a policy and its environment, in the format of the recorded cases (`test/goldens/README.md`).
 * Strict: a field that the servers do not play is an error.
 */

const Raised = z.strictObject({ type: z.string(), message: z.string() });

const Text = z.strictObject({
  text: z.string().optional(),
  /** Texts and raw special ids. */
  parts: z.array(z.union([z.string(), z.int()])).optional(),
  /** Append the end of sequence, unless a stop string ended the text. */
  eos: z.boolean().default(false),
  /** Logprobs of the first tokens; the others, or all, have -(i+1)/16. */
  logprobs: z.array(z.number()).optional(),
});

export const Generation = z.union([z.strictObject({ raise: Raised }), Text]);
export type Generation = z.input<typeof Generation>;

export const Step = z.union([
  z.strictObject({ raise: Raised }),
  z.strictObject({
    observation: z.strictObject({ role: z.string(), content: z.string() }),
    reward: z.number(),
    terminated: z.boolean(),
    metadata: z.record(z.string(), z.unknown()).nullable(),
    stop_strings: z.array(z.string()).nullable(),
  }),
]);
export type Step = z.infer<typeof Step>;

/** How a script is stored (by `[row][turn]`), and which requests are errors. */
export interface ScriptRules {
  /** The answer to a turn beyond the script: the last entry again, as in the recorded cases, or a failure. */
  after_last?: 'repeat' | 'fail';
  /** Whether a completed turn may be requested again, which happens if a worker is killed on purpose. */
  allow_repeats?: boolean;
}

/** A request that the test did not expect: the server refuses it and records it as a problem. */
export class ScriptError extends Error {}

export function entryAt<T>(
  script: readonly (readonly T[])[],
  { row, turn, after_last = 'fail' }: { row: number; turn: number } & ScriptRules,
): T {
  const entries = script[row] ?? [];
  const entry = entries[turn] ?? (after_last === 'repeat' ? entries.at(-1) : undefined);
  if (entry !== undefined) return entry;
  throw new ScriptError(
    `the script has ${entries.length} turns of row ${row}, turn ${turn} was asked for`,
  );
}

export interface PlannedTurn {
  token_ids: number[];
  logprobs: number[];
  /** The stop string that ended it. */
  stop_reason: string | null;
}

/** A turn as an engine with these stop strings samples it, before any limit of length. */
export function planTurn(generation: Generation, stopStrings: readonly string[]): PlannedTurn {
  const entry = Generation.parse(generation);
  if ('raise' in entry) throw new ScriptError('this entry raises');
  const parts = entry.parts ?? [entry.text ?? ''];
  const ids = parts.flatMap((part) => (typeof part === 'number' ? [part] : encode(part)));
  const stop = firstStop(ids, stopStrings);
  const token_ids = stop ? ids.slice(0, stop.end) : entry.eos ? [...ids, END_OF_SEQUENCE] : ids;
  return {
    token_ids,
    logprobs: token_ids.map((_, i) => entry.logprobs?.[i] ?? -(i + 1) / 16),
    stop_reason: stop?.text ?? null,
  };
}

/** The stop string that is complete first, and the number of ids up to its end. */
function firstStop(
  ids: readonly number[],
  stopStrings: readonly string[],
): { text: string; end: number } | null {
  let seen = '';
  for (const [i, id] of ids.entries()) {
    if (id < FIRST_CHARACTER) continue;
    seen += visibleText(id);
    const text = stopStrings.find((stop) => seen.endsWith(stop));
    if (text !== undefined) return { text, end: i + 1 };
  }
  return null;
}
