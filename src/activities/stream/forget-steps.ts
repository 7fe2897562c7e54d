import type { StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import { requestOf, streamOf } from '../request-of.js';
import { streamFacts } from './stream-facts.js';

/** The fact that they are forgotten is put before anything is deleted, so a half-deleted step is not written again. */
export const createForgetSteps =
  ({ attempt, store }: Pick<Dependencies, 'attempt' | 'store'>): StreamActivities['forgetSteps'] =>
  ({ stream_id, through }) =>
    attempt(async ({ signal }) => {
      const { steps, forgotten } = streamFacts(stream_id, store.facts);
      const request = await requestOf(stream_id, store);
      const { max_replacements } = streamOf(request, stream_id);
      const repeats = request.num_repeats + max_replacements;
      let last = await forgotten.last(-1);
      const from = (last?.value.through ?? -1) + 1;
      while ((last?.value.through ?? -1) < through) {
        const n = (last?.n ?? -1) + 1;
        last = { n, value: await forgotten.put(n, { through }) };
      }
      // An attempt that died may have left some, so the step before is checked once more.
      for (let step = Math.max(0, from - 1); step <= through; step++) {
        signal.throwIfAborted();
        await store.stepOutputs({ stream_id, step }).forget();
        const { groups = [], out = [] } = (await steps.find(step)) ?? {};
        const rows = [...groups, ...out.map(({ group }) => group)];
        await store.forgetJournals({ batch_id: stream_id, rows, repeats });
      }
    });
