import { compareKeys, type RowKey } from '../../row.js';
import type { Rows } from './describe.js';
import { duplicatesIn, sortedRows, type Keyed } from './key-order.js';

/** How many keys an error text shows. */
const SHOWN = 10;

/** Materialised rows and results, matched by key. */
export interface Alignment {
  /** Pairs, sorted by key: `inputs[i]` belongs to `results[i]`. */
  inputs: Rows;
  results: Rows;
  /** Inputs without a result. */
  missing: Rows;
  /** Results without an input. */
  extra: Rows;
  /** All inputs, sorted. */
  all: Rows;
}

interface Both {
  inputs: Keyed;
  results: Keyed;
}

/** Throws, with upstream's text, if either side has a key twice. */
export function align({ inputs, results }: Both): Alignment {
  const all = uniqueRows(inputs, 'materialized input');
  const found = uniqueRows(results, 'result');
  return { ...walk({ keyed: inputs, rows: all }, { keyed: results, rows: found }), all };
}

/**
 * Why upstream profiles nothing, in its words: results without a row, and, unless partial rollouts are allowed, rows
 * without a result.
 */
export function mismatchOf(
  { inputs, results }: Both,
  { missing, extra }: Pick<Alignment, 'missing' | 'extra'>,
): { extra: string | null; missing: string | null } {
  return {
    extra:
      extra.length === 0
        ? null
        : 'Rollout results contain rows with no matching materialized input rows. ' +
          `Found ${extra.length} extra rollout rows. Extra rollout keys: ${keysText(results, extra)}`,
    missing:
      missing.length === 0
        ? null
        : 'Materialized input rows and rollout results do not have matching rollout keys. ' +
          `Missing rollout results for ${missing.length} materialized input rows. ` +
          `Missing rollout keys: ${keysText(inputs, missing)}.\n\n` +
          'Use ++allow_partial_rollouts=True to profile completed rollouts from a partial collection.',
  };
}

function uniqueRows(keyed: Keyed, name: string): Rows {
  const rows = sortedRows(keyed);
  const again = duplicatesIn(keyed, rows).map((duplicate) => duplicate.again);
  if (again.length === 0) return rows;
  const key = keyed.keyOf(again.reduce((a, b) => Math.min(a, b)));
  throw new Error(`Duplicate ${name} row for rollout key ${keyText(key)}`);
}

interface Side {
  keyed: Keyed;
  rows: Rows;
}

/** Each side once, in the order of keys; an exhausted side comes last. */
function walk(left: Side, right: Side): Omit<Alignment, 'all'> {
  const inputs: number[] = [];
  const results: number[] = [];
  const missing: number[] = [];
  const extra: number[] = [];
  let [i, j] = [0, 0];
  for (;;) {
    const [input, result] = [left.rows[i], right.rows[j]];
    if (input === undefined && result === undefined) break;
    const order =
      input === undefined
        ? 1
        : result === undefined
          ? -1
          : compareKeys(left.keyed.keyOf(input), right.keyed.keyOf(result));
    if (order <= 0) i += 1;
    if (order >= 0) j += 1;
    if (input !== undefined && order <= 0) (order < 0 ? missing : inputs).push(input);
    if (result !== undefined && order >= 0) (order > 0 ? extra : results).push(result);
  }
  return {
    inputs: Uint32Array.from(inputs),
    results: Uint32Array.from(results),
    missing: Uint32Array.from(missing),
    extra: Uint32Array.from(extra),
  };
}

/** As Python prints a tuple, and a list of them. */
const keyText = ({ task, rollout }: RowKey): string => `(${task}, ${rollout})`;

const keysText = (keyed: Keyed, rows: Rows): string =>
  `[${Array.from(rows.subarray(0, SHOWN), (row) => keyText(keyed.keyOf(row))).join(', ')}]`;
