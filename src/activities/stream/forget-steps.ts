import type { z } from 'zod';
import type { Forgotten } from '../../model/stream/facts.js';
import type { StreamActivities } from '../contract/stream.js';
import type { Dependencies } from '../dependencies.js';
import type { FactsOf } from '../facts.js';
import { requestOf, streamOf } from '../request-of.js';
import { decidedIn, forgetDecided } from './decided-groups.js';
import { streamFacts } from './stream-facts.js';

/**
 * The fact that they are forgotten is put before anything is deleted, so a half-deleted step is not written again. The
 * fact of a step goes last, so an attempt that died leaves to the next one what it has not deleted.
 */
export const createForgetSteps =
  ({ attempt, store }: Pick<Dependencies, 'attempt' | 'store'>): StreamActivities['forgetSteps'] =>
  ({ stream_id, through }) =>
    attempt(async ({ signal }) => {
      const facts = streamFacts(stream_id, store.facts);
      const request = await requestOf(stream_id, store);
      const { max_replacements } = streamOf(request, stream_id);
      const repeats = request.num_repeats + max_replacements;
      const last = await putForgotten(through, facts.forgotten);
      const last_step = last.value.through;
      for (const step of await facts.steps.upTo(last_step)) {
        signal.throwIfAborted();
        await store.stepOutputs({ stream_id, step }).forget();
        const fact = await facts.steps.find(step);
        if (fact === null) continue;
        await store.forgetJournals({ batch_id: stream_id, rows: decidedIn(fact), repeats });
        await forgetDecided(fact, facts);
        // A stream that is started again finds its place by the last one.
        if (step < last_step) await facts.steps.forget([step]);
      }
      await facts.forgotten.forget(await facts.forgotten.upTo(last.n - 1));
    });

/** Returns the last of these facts, which may forget more. */
async function putForgotten(
  through: number,
  forgotten: FactsOf<z.infer<typeof Forgotten>>,
): Promise<{ n: number; value: z.infer<typeof Forgotten> }> {
  let last = (await forgotten.last(-1)) ?? { n: -1, value: { through: -1 } };
  while (last.value.through < through) {
    const n = last.n + 1;
    last = { n, value: await forgotten.put(n, { through }) };
  }
  return last;
}
