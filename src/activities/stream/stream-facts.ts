import type { z } from 'zod';
import { Fault } from '../../model/faults.js';
import { problemsOf } from '../../model/problems.js';
import { Admitted, Dropped, Forgotten, GroupEnd, StepFact } from '../../model/stream/facts.js';
import type { Facts, Series } from '../../trajectories/trajectory-store.js';

/** One kind of facts of a stream, by number. Methods throw `StoreFault`. */
export interface FactsOf<T> {
  /** Returns what the store has: another writer's fact, if that was first. */
  put: (n: number, value: T) => Promise<T>;
  find: (n: number) => Promise<T | null>;
  /** Facts above number `known`, for kinds without gaps. */
  last: (known: number) => Promise<{ n: number; value: T } | null>;
}

export interface StreamFacts {
  /** By group, without gaps. */
  admitted: FactsOf<z.infer<typeof Admitted>>;
  /** By group. */
  ended: FactsOf<z.infer<typeof GroupEnd>>;
  /** By group. */
  dropped: FactsOf<z.infer<typeof Dropped>>;
  /** Without gaps. */
  steps: FactsOf<z.infer<typeof StepFact>>;
  /** In the order in which they were forgotten, without gaps. */
  forgotten: FactsOf<z.infer<typeof Forgotten>>;
}

export function streamFacts(stream_id: string, facts: Facts): StreamFacts {
  const of = <T>(kind: string, schema: z.ZodType<T>): FactsOf<T> =>
    factsOf([stream_id, kind], { schema, facts });
  return {
    admitted: of('admitted', Admitted),
    ended: of('ended', GroupEnd),
    dropped: of('dropped', Dropped),
    steps: of('steps', StepFact),
    forgotten: of('forgotten', Forgotten),
  };
}

function factsOf<T>(
  series: Series,
  { schema, facts }: { schema: z.ZodType<T>; facts: Facts },
): FactsOf<T> {
  const parsed = (n: number, text: string): T => {
    const value = JSON.parse(text) as unknown;
    const { data, error } = schema.safeParse(value);
    if (error === undefined) return data;
    const [problem] = problemsOf(error, value);
    const message = `${series.join('/')} ${n}: ${problem?.where ?? ''}: ${problem?.what ?? 'malformed'}`;
    throw new Fault({ type: 'StoreFault', message });
  };
  const find = async (n: number): Promise<T | null> => {
    const text = await facts.find(series, n);
    return text === null ? null : parsed(n, text);
  };
  return {
    find,
    put: async (n, value) => {
      if (await facts.put({ series, n, text: `${JSON.stringify(value)}\n` })) return value;
      const standing = await find(n);
      if (standing !== null) return standing;
      throw new Fault({ type: 'StoreFault', message: `${series.join('/')} ${n} is gone` });
    },
    last: async (known) => {
      const fact = await facts.last(series, known);
      return fact === null ? null : { n: fact.n, value: parsed(fact.n, fact.text) };
    },
  };
}
