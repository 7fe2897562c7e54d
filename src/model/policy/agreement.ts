/**
 * Whether engines have the weights that a trainer sent: what they say of fixed ids differs from before, and is the same
 * on all of them. A transfer that moves nothing reports success, too.
 */

/** Any vocabulary has them. */
export const AGREED_IDS: readonly number[] = Array.from(
  { length: 64 },
  (_, i) => 3 + ((i * 37) % 97),
);

/** Below this the engine's own arithmetic differs from one batch to the next. */
const SAME = 1e-6;

export interface Told {
  /** Before the transfer; null: it could not be asked. */
  before: readonly number[] | null;
  after: readonly number[];
}

/** Why an engine does not have the weights, by URL; those that have them are left out. */
export function disagreements(
  told: Readonly<Record<string, Told>>,
  { tolerance, same }: { tolerance: number; same: boolean },
): Record<string, string> {
  const all = Object.entries(told);
  const faults: Record<string, string> = {};
  for (const [url, { before, after }] of all) {
    if (!same && before !== null && distance(before, after) <= SAME)
      faults[url] = 'probe: the weights did not change (`same: true` allows that)';
    else if (!isOfMost(after, { all, tolerance }))
      faults[url] =
        `probe: expected the logprobs of most engines ± ${tolerance}, ${nearestOf(url, all)}`;
  }
  return faults;
}

function isOfMost(
  after: readonly number[],
  { all, tolerance }: { all: readonly [string, Told][]; tolerance: number },
): boolean {
  const agree = all.filter(([, other]) => distance(after, other.after) <= tolerance).length;
  return agree > all.length / 2;
}

function nearestOf(url: string, all: readonly [string, Told][]): string {
  const own = all.find(([other]) => other === url)?.[1].after ?? [];
  const distances = all.flatMap(([other, { after }]) =>
    other === url ? [] : [distance(own, after)],
  );
  return `got ${Math.min(...distances).toFixed(3)} off the nearest of ${distances.length}`;
}

export const distance = (a: readonly number[], b: readonly number[]): number =>
  a.length === b.length
    ? Math.max(0, ...a.map((one, i) => Math.abs(one - (b[i] ?? NaN))))
    : Infinity;
