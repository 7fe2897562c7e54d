import type { z } from 'zod';
import { Fault } from '../model/faults.js';
import { problemsOf } from '../model/problems.js';
import type { Facts, Series } from '../trajectories/trajectory-store.js';

export type FactsOf<T> = ReturnType<typeof factsOf<T>>;

/** The facts of one series as values, by number. Methods throw `StoreFault`. `name`: what messages call the series. */
export function factsOf<T>(
  series: Series,
  { schema, facts, name = series.join('/') }: { schema: z.ZodType<T>; facts: Facts; name?: string },
) {
  const parsed = (n: number, text: string): T => {
    const value = JSON.parse(text) as unknown;
    const { data, error } = schema.safeParse(value);
    if (error === undefined) return data;
    const [problem] = problemsOf(error, value);
    const message = `${name} ${n}: ${problem?.where ?? ''}: ${problem?.what ?? 'malformed'}`;
    throw new Fault({ type: 'StoreFault', message });
  };
  const find = async (n: number): Promise<T | null> => {
    const text = await facts.find(series, n);
    return text === null ? null : parsed(n, text);
  };
  return {
    find,
    /** Returns what the store has: another writer's fact, if that was first. */
    put: async (n: number, value: T): Promise<T> => {
      if (await facts.put({ series, n, text: `${JSON.stringify(value)}\n` })) return value;
      const existing = await find(n);
      if (existing !== null) return existing;
      throw new Fault({ type: 'StoreFault', message: `${name} ${n} is gone` });
    },
    /** The last fact above number `known`, as in `Facts`. */
    last: async (known: number) => {
      const fact = await facts.last(series, known);
      return fact === null ? null : { n: fact.n, value: parsed(fact.n, fact.text) };
    },
    /** The numbers up to this one, in ascending order, as far as they are there. Those before the first were forgotten. */
    upTo: async (last: number): Promise<number[]> => {
      const there: number[] = [];
      for (let n = last; n >= 0 && (await facts.find(series, n)) !== null; n--) there.push(n);
      return there.reverse();
    },
    forget: (numbers: readonly number[]) => facts.forget(series, numbers),
  };
}
