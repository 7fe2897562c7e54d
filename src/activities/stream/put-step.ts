import type { StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { streamFacts } from './stream-facts.js';

export const createPutStep =
  ({ attempt, store }: Pick<Dependencies, 'attempt' | 'store'>): StreamActivities['putStep'] =>
  ({ stream_id, fact }) =>
    attempt(() => streamFacts(stream_id, store.facts).steps.put(fact.step, fact));
