import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { readSamples } from '../../../src/activities/plan/read-samples.js';
import type { StoredRequest } from '../../../src/model/stream/stream-request.js';
import { StreamRequest, playedAs } from '../../../src/model/stream/stream-request.js';
import { activityBench } from '../../fakes/activity-bench.js';
import { faultOf, sampleOf } from '../../fakes/temporary-store.js';

/** A stream's request, as planning reads it. */
const streamOf = (fields: Record<string, unknown>): StoredRequest =>
  playedAs(StreamRequest.parse({ groups_per_step: 1, num_repeats: 2, ...fields }));

const refused = (text: string) => faultOf('InvalidBatchRequest', text);

describe('samples of a stream that filters', () => {
  const samples = (...multipliers: (number | undefined)[]): unknown[] =>
    multipliers.map(
      (loss_multiplier) => JSON.parse(sampleOf('go', { loss_multiplier })) as unknown,
    );
  const read = async (t: TestContext, request: StoredRequest): Promise<number> => {
    const { dependencies } = await activityBench(t);
    return (await readSamples(request, dependencies)).samples.length;
  };

  test('are refused if none of them is to be trained on: every group would be replaced', async (t) => {
    // The last one is 0 in a trainer's float32.
    const none = samples(0, 0, 1e-60);
    await assert.rejects(
      read(t, streamOf({ samples: none, filter: 'zero_variance' })),
      refused(
        'samples: expected a sample with a loss_multiplier above 0 with filter zero_variance, got none',
      ),
    );
    assert.equal(await read(t, streamOf({ samples: none })), 3);
  });

  test('are taken if one of them is', async (t) => {
    for (const some of [samples(0, 0.5), samples(0, undefined)])
      assert.equal(await read(t, streamOf({ samples: some, filter: 'zero_variance' })), 2);
    const first = streamOf({ samples: samples(0, 1), limit: 1, filter: 'zero_variance' });
    await assert.rejects(read(t, first), refused('got none'));
  });
});
