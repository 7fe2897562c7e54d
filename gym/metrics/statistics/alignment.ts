import type { RowKey } from '../../row.js';
import type { Rows } from './describe.js';
import { compareKeys, duplicatesIn, sortedRows, type Keyed } from './key-order.js';

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

/** Each side once, in the order of keys. */
function walk(left: Side, right: Side): Omit<Alignment, 'all'> {
  const inputs = new Uint32Array(left.rows.length);
  const results = new Uint32Array(left.rows.length);
  const missing = new Uint32Array(left.rows.length);
  const extra = new Uint32Array(right.rows.length);
  const counts = { matched: 0, missing: 0, extra: 0 };
  let [i, j] = [0, 0];
  while (i < left.rows.length || j < right.rows.length) {
    const [input, result] = [left.rows[i], right.rows[j]];
    const order = compareHeads(left.keyed, right.keyed)(input, result);
    if (order <= 0) i += 1;
    if (order >= 0) j += 1;
    if (order < 0) missing[counts.missing++] = input ?? 0;
    else if (order > 0) extra[counts.extra++] = result ?? 0;
    else {
      inputs[counts.matched] = input ?? 0;
      results[counts.matched++] = result ?? 0;
    }
  }
  return {
    inputs: inputs.subarray(0, counts.matched),
    results: results.subarray(0, counts.matched),
    missing: missing.subarray(0, counts.missing),
    extra: extra.subarray(0, counts.extra),
  };
}

/** An exhausted side comes last. */
const compareHeads =
  (left: Keyed, right: Keyed) =>
  (input: number | undefined, result: number | undefined): number => {
    if (input === undefined) return 1;
    if (result === undefined) return -1;
    return compareKeys(left.keyOf(input), right.keyOf(result));
  };

/** As Python prints a tuple, and a list of them. */
const keyText = ({ task, rollout }: RowKey): string => `(${task}, ${rollout})`;

const keysText = (keyed: Keyed, rows: Rows): string =>
  `[${Array.from(rows.subarray(0, SHOWN), (row) => keyText(keyed.keyOf(row))).join(', ')}]`;
