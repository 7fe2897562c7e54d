/** Weights that a trainer has put on S3, published by their address. */
import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { WEIGHTS_OBJECT } from '../../simulator/weights.js';
import type { Bucket } from '../../src/platform/s3/bucket.js';
import { createBucket } from '../../src/platform/s3/bucket.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed } from '../../lab/bed/policy-bed.js';
import { puzzleBatch } from '../../lab/bed/bed.js';
import { noS3, startS3 } from '../harness/s3-server.js';
import { eventually } from '../../lab/bed/waiting.js';

describe('a checkpoint on S3', { skip: noS3 }, () => {
  const ends: (() => unknown)[] = [];
  const t = { after: (end: unknown) => void ends.push(end as () => unknown) };
  let bed: PolicyBed;
  let bucket: Bucket;
  before(async () => {
    const s3 = await startS3(t);
    // Of the worker, and of engines that stream from there.
    process.env['AWS_ENDPOINT_URL_S3'] = s3.endpoint;
    bucket = createBucket(await s3.bucket('team/checkpoints'));
    ends.push(bucket.close);
    bed = await startPolicyBed({
      name: 'policy-bucket',
      simulator: { log_tokens: true },
      skill: 1,
    });
    ends.push(bed.end);
  });
  after(async () => {
    delete process.env['AWS_ENDPOINT_URL_S3'];
    for (const end of ends.reverse()) await end();
  });

  /** What a trainer publishes for these weights, once it has put them there. */
  async function put(version: number) {
    const published = await bed.weights(version);
    const weights = { name: String(version), skill: 1, seed: version };
    await bucket.put(`step-${version}/${WEIGHTS_OBJECT}`, JSON.stringify(weights));
    return {
      ...published,
      weights: { kind: 'checkpoint', path: `${bucket.name}/step-${version}` },
    } as const;
  }

  const states = async (): Promise<string[]> => {
    const { replicas = {} } = (await bed.record()) ?? {};
    return Object.values(replicas).map(({ state, version }) => `${state} ${version}`);
  };

  /** Kills an engine and starts it with other weights. A batch that plays meanwhile shows that to its worker. */
  async function restarted(id: string): Promise<string> {
    const [engine] = bed.engines;
    await engine?.kill();
    await engine?.start();
    await bed.batch(id).start(puzzleBatch({ samples: 8, repeats: 2, max_rollout_turns: 4 }));
    return engine?.replica ?? '';
  }

  /** Whatever became of its engine. */
  async function whole(id: string): Promise<void> {
    assert.equal((await bed.batch(id).outcome()).result?.counts.completed, 16);
    assert.deepEqual((await bed.check(id)).wrong, []);
  }

  test('is loaded by every engine, and its tokens have its version', async () => {
    await bed.publish(await put(1));
    assert.deepEqual(await states(), ['current 1', 'current 1']);
    const id = 'from-s3';
    await bed.batch(id).start(puzzleBatch({ samples: 2, repeats: 2, max_rollout_turns: 1 }));
    assert.equal((await bed.batch(id).outcome()).result?.counts.completed, 4);
    const { wrong, unlabelled, labels } = await bed.check(id);
    assert.deepEqual([wrong, unlabelled, Object.keys(labels)], [[], 0, ['1']]);
  });

  test('is loaded again by an engine that was started anew', async () => {
    const replica = await restarted('restarted');
    await eventually('its weights to be back', async () => {
      const info = await fetch(replica.replace(/v1$/, 'weight_info'));
      const { weight_version } = (await info.json()) as { weight_version: string };
      return weight_version === '1' && (await states()).every((state) => state === 'current 1');
    });
    await whole('restarted');
  });

  test('is not loaded under its version once its objects are others', async () => {
    await bed.publish(await put(2));
    const object = `step-2/${WEIGHTS_OBJECT}`;
    const before = (await bucket.get(object)) ?? '';
    await bucket.put(object, '{"name": "other", "skill": 1, "seed": 9}');
    const replica = await restarted('others');
    await eventually('the engine to be refused', async () => {
      const { state, fault } = (await bed.record())?.replicas[replica] ?? {};
      return state === 'unknown' && fault?.includes('when version 2 was published') === true;
    });
    await bucket.put(object, before);
    await eventually('the engine to be back', async () =>
      (await states()).every((state) => state === 'current 2'),
    );
    await whole('others');
  });
});
