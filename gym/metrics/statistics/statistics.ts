/** What pandas' `describe`-like reductions make of a column, missing values left out. */
export interface Statistics {
  count: number;
  mean: number;
  max: number;
  min: number;
  median: number;
  /** With n - 1 in the denominator; null: of a single value. */
  std: number | null;
}

/** Sorts `values` in place, so that the result does not depend on their order. At least one value. */
export function statisticsOf(values: Float64Array): Statistics {
  values.sort();
  const count = values.length;
  const at = (index: number): number => values[index] ?? Number.NaN;
  const middle = count >>> 1;
  const mean = sumOf(values, (value) => value) / count;
  return {
    count,
    mean,
    max: at(count - 1),
    min: at(0),
    median: count % 2 === 1 ? at(middle) : (at(middle - 1) + at(middle)) / 2,
    std: count < 2 ? null : Math.sqrt(sumOf(values, (value) => (value - mean) ** 2) / (count - 1)),
  };
}

/** Neumaier's sum: a million values lose nothing by their number. */
function sumOf(values: Float64Array, term: (value: number) => number): number {
  let sum = 0;
  let lost = 0;
  for (const value of values) {
    const next = term(value);
    const total = sum + next;
    lost += Math.abs(sum) >= Math.abs(next) ? sum - total + next : next - total + sum;
    sum = total;
  }
  return sum + lost;
}
