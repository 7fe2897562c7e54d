import path from 'node:path';
import { parseBatchId } from '../../model/batch-request.js';
import { parsedAs } from '../../model/unknown-fields.js';
import { StreamRequest, playedAs } from '../../model/stream/stream-request.js';
import type { StreamState } from '../contract/stream.js';
import type { Body, Dependencies } from '../dependencies.js';
import { restoreLimits } from '../limits/limit-facts.js';
import { playedPlan } from '../plan/plan-batch.js';
import { prepareRequest } from '../plan/prepare-batch.js';
import { findState } from './find-stream.js';
import { streamFacts } from './stream-facts.js';
import { servedNow } from './watch-served.js';

/**
 * Validates the request and every sample of it, as for a batch, and finds the state of the stream. Groups of an earlier
 * run continue, and nobody waits for them.
 */
export const planStream: Body<'planStream'> = async ([input], dependencies) => {
  const { attempt, store, policy } = dependencies;
  const stream_id = parseBatchId(attempt.workflow_id);
  const asked = parsedAs(StreamRequest, input);
  const { request, samples, tasks } = await prepareRequest(playedAs(asked), dependencies);
  const stream = { ...asked, generation: request.generation };
  await store.createBatch({ batch_id: stream_id, request: stream, samples });
  await restoreLimits({ batch_id: stream_id, run: attempt.run_id }, store.facts);
  const { num_repeats, generation, max_in_flight } = stream;
  const service = policy(generation.service) === undefined ? null : generation.service;
  const found = await findState(streamFacts(stream_id, store.facts), { num_repeats });
  return {
    stream_id,
    service,
    pacing: {
      groups_per_step: stream.groups_per_step,
      max_lag: stream.max_lag,
      versions_per_step: stream.versions_per_step,
      when_stale: stream.when_stale,
      num_repeats,
      max_in_flight,
      samples: samples.length,
      epochs: stream.epochs,
    },
    ...(await playedPlan(stream_id, {
      ...{ request: stream, tasks, in_flight: max_in_flight, dependencies },
    })),
    filter: stream.filter,
    max_replacements: stream.max_replacements,
    keep_steps: stream.keep_steps,
    // The folder of any step is in it.
    steps_dir: path.dirname(path.dirname(store.stepOutputs({ stream_id, step: 0 }).files.metrics)),
    found: service === null ? found : await withPolicy(found, { service, dependencies }),
  };
};

/** Nothing is admitted or requested before the served version is known. */
async function withPolicy(
  found: StreamState,
  { service, dependencies }: { service: string; dependencies: Dependencies },
): Promise<StreamState> {
  const { pacing, is_versioned } = found;
  const now = await servedNow(service, { known: pacing, dependencies });
  const { served, is_published, waiting = null, born = null, target = null } = now;
  return {
    ...found,
    pacing: { ...pacing, served, target },
    is_published,
    ...(is_published && { born }),
    waiting,
    is_versioned: is_versioned || is_published,
  };
}
