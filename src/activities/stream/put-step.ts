import type { StepFact, StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { deliveredIn } from './decided-groups.js';
import { streamFacts } from './stream-facts.js';

export const createPutStep =
  ({ attempt, store }: Pick<Dependencies, 'attempt' | 'store'>): StreamActivities['putStep'] =>
  ({ stream_id, fact }) =>
    attempt(async () => {
      const facts = streamFacts(stream_id, store.facts);
      const delivered = await deliveredIn(fact, facts);
      const put: StepFact & { delivered?: unknown } = await facts.steps.put(fact.step, {
        ...fact,
        delivered,
      });
      // Only the store needs it: the workflow's history has one for each step.
      delete put.delivered;
      return put;
    });
