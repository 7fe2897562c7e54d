import type { z } from 'zod';
import { Admitted, Dropped, Forgotten, GroupEnd, StepFact } from '../../model/stream/facts.js';
import type { Facts } from '../../trajectories/trajectory-store.js';
import type { FactsOf } from '../facts.js';
import { factsOf } from '../facts.js';

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
