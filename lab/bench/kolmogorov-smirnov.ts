/** The two-sample Kolmogorov-Smirnov test, exact, with ties. */

export interface KsTest {
  /** The largest distance between the two empirical distribution functions. */
  statistic: number;
  /** The probability of at least this distance if both samples are drawn from one distribution. */
  p: number;
}

/**
 * Two-sided. p is that of the permutation test on D: under the null hypothesis every order of the pooled values is
 * equally likely. Without ties this is the classic exact test. With ties (rewards are 0 or 1) D is evaluated only
 * between different values, as R's `ks.test(exact = TRUE)` does, so p is exact there, too. Time grows with the product
 * of the sizes, memory with their sum.
 */
export function ksTest(a: readonly number[], b: readonly number[]): KsTest {
  const walk = walkOf(a, b);
  const scale = a.length * b.length;
  const furthest = walk.reduce(
    (most, { i, j }) => Math.max(most, Math.abs(i * b.length - j * a.length)),
    0,
  );
  const looks = new Set(walk.map(({ i, j }) => i + j));
  return {
    statistic: furthest / scale,
    p: shareThatReaches(furthest, { m: a.length, n: b.length, looks }),
  };
}

/** For each distinct value, how many values of each sample are not larger. */
function walkOf(a: readonly number[], b: readonly number[]): { i: number; j: number }[] {
  if (a.length === 0 || b.length === 0) throw new Error('expected two samples, got an empty one');
  const left = sorted(a);
  const right = sorted(b);
  const steps: { i: number; j: number }[] = [];
  let i = 0;
  let j = 0;
  while (i < left.length || j < right.length) {
    const value = Math.min(left[i] ?? Infinity, right[j] ?? Infinity);
    while (left[i] === value) i++;
    while (right[j] === value) j++;
    steps.push({ i, j });
  }
  return steps;
}

function sorted(values: readonly number[]): number[] {
  const strange = values.find((value) => !Number.isFinite(value));
  if (strange !== undefined) throw new Error(`expected numbers, got ${strange}`);
  return values.toSorted((x, y) => x - y);
}

interface Grid {
  m: number;
  n: number;
  /** The sums i + j at which the distance is evaluated. */
  looks: ReadonlySet<number>;
}

/**
 * The share of paths from (0, 0) to (m, n), with steps to the right or up, that reach a distance of at least `furthest`
 * from the diagonal (in units of 1/(mn)) at one of these sums. All terms are positive, so small p are as exact as large
 * ones.
 */
function shareThatReaches(furthest: number, { m, n, looks }: Grid): number {
  const reaches = (i: number, j: number): boolean =>
    looks.has(i + j) && Math.abs(i * n - j * m) >= furthest;
  let before: number[] = [];
  for (let i = 0; i <= m; i++) {
    const column: number[] = [];
    for (let j = 0; j <= n; j++) {
      // The last step of a path to (i, j) came from the left in a share i / (i + j) of the paths.
      const fromLeft = i === 0 ? 0 : (i / (i + j)) * (before[j] ?? 0);
      const fromBelow = j === 0 ? 0 : (j / (i + j)) * (column[j - 1] ?? 0);
      column.push(reaches(i, j) ? 1 : fromLeft + fromBelow);
    }
    before = column;
  }
  return Math.min(1, before[n] ?? 1);
}
