import { reprOf } from '../../src/platform/python/repr.js';

/** How often each agent's rows are played, and what is amiss once all rows were seen. */
export interface Repeats {
  /** Null: the agent has no entry and there is no `_default`; `check` will say so. */
  of(agent: string): number | null;
  /** Throws for agents without a number; returns a warning for numbers without rows. */
  check(): string | null;
}

/** `num_repeats`: one number, or one an agent with `_default` for the rest. */
export function createRepeats(num_repeats: number | Record<string, number>): Repeats {
  if (typeof num_repeats === 'number') return { of: () => num_repeats, check: () => null };
  const { _default: fallback, ...named } = num_repeats;
  const seen = new Set<string>();
  const missing = new Set<string>();
  return {
    of: (agent) => {
      seen.add(agent);
      const count = Object.hasOwn(named, agent) ? named[agent] : fallback;
      if (count === undefined) missing.add(agent);
      return count ?? null;
    },
    check: () => {
      if (missing.size > 0) {
        throw new Error(
          `num_repeats dict has no entry for agents ${listOf(missing)} ` +
            `and no '_default' fallback. Listed agents: ${listOf(Object.keys(named))}`,
        );
      }
      const unused = Object.keys(named).filter((agent) => !seen.has(agent));
      if (unused.length === 0) return null;
      return `num_repeats dict contains agent names that never appeared in input rows (possible typo?): ${listOf(unused)}`;
    },
  };
}

const listOf = (names: Iterable<string>): string => reprOf([...names].sort());
