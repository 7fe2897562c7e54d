/**
 * Sums as upstream's libraries compute them, to the last bit: how partial sums are rounded depends on their order.
 */

/** A column of a data frame: `values` at these places, ascending, and 0 at all others. */
export interface Column {
  values: Float64Array;
  places: Uint32Array;
  size: number;
}

const BLOCK = 128;
const LANES = 8;
const block = new Float64Array(BLOCK);

/** numpy's sum: halves down to blocks, which are summed in eight lanes. */
export function pairwiseSum({ values, places, size }: Column): number {
  // Most groups are small, and zeros change nothing.
  if (size < LANES) return values.reduce((sum, value) => sum + value, 0);
  let next = 0;
  const placeOf = (index: number): number => places[index] ?? Infinity;
  const sum = (start: number, length: number): number => {
    const end = start + length;
    if (placeOf(next) >= end) return 0;
    if (length > BLOCK) {
      const half = length >>> 1;
      const left = half - (half % LANES);
      return sum(start, left) + sum(start + left, length - left);
    }
    block.fill(0, 0, length);
    for (; placeOf(next) < end; next++) block[placeOf(next) - start] = values[next] ?? 0;
    return blockSum(block.subarray(0, length));
  };
  return sum(0, size);
}

function blockSum(values: Float64Array): number {
  const { length } = values;
  const at = (index: number): number => values[index] ?? 0;
  let sum = 0;
  let index = 0;
  if (length >= LANES) {
    const lanes = values.slice(0, LANES);
    for (index = LANES; index < length - (length % LANES); index += LANES) {
      for (let lane = 0; lane < LANES; lane++) lanes[lane] = (lanes[lane] ?? 0) + at(index + lane);
    }
    const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = lanes;
    sum = a + b + (c + d) + (e + f + (g + h));
  }
  for (; index < length; index++) sum += at(index);
  return sum;
}

/** A number of Python: `whole` if it is an int. */
export interface PythonNumber {
  readonly value: number;
  readonly whole: boolean;
}

/** Python's `sum`, while it runs: ints are added exactly, floats with Neumaier's compensation. */
export interface PythonSum {
  total: number;
  lost: number;
  /** A float has been added. */
  isFloat: boolean;
}

export const emptySum = (): PythonSum => ({ total: 0, lost: 0, isFloat: false });

/** The first float, and ints after it, are added without compensation (CPython 3.12 and 3.13). */
export function addTo(sum: PythonSum, { value, whole }: PythonNumber): void {
  const { total } = sum;
  const next = total + value;
  if (sum.isFloat && !whole) {
    sum.lost += Math.abs(total) >= Math.abs(value) ? total - next + value : value - next + total;
  }
  sum.total = next;
  sum.isFloat ||= !whole;
}

export const sumOf = ({ total, lost }: PythonSum): number => total + lost;

/** The sum of floats. */
export function floatSum(values: Iterable<number>): number {
  const sum = emptySum();
  for (const value of values) addTo(sum, { value, whole: false });
  return sumOf(sum);
}

/** `a / b` of Python's ints, 0 ≤ a ≤ b: rounded once, however large they are. */
export function ratioOf(a: bigint, b: bigint): number {
  if (a === 0n) return 0;
  // At least 56 bits of the quotient, of which the last one says whether something follows.
  const shift = 4 * (b.toString(16).length - a.toString(16).length) + 60;
  const shifted = a << BigInt(shift);
  const quotient = shifted / b;
  const rest = shifted % b === 0n ? 0n : 1n;
  return Number(quotient | rest) * 2 ** -shift;
}
