/** What a stream knows of versions: of its groups' births, and of a step for which no version is given. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StreamPlan } from '../../src/activities/contract/stream.js';
import { pacingFrom } from '../../src/model/workflow-safe/stream/state.js';
import type { Stream } from '../../src/workflows/stream/stream-state.js';
import { openStream } from '../../src/workflows/stream/stream-state.js';

function opened(when_stale: 'wait' | 'drop' | 'mask' = 'wait'): Stream {
  const pacing = { groups_per_step: 2, max_lag: 1, versions_per_step: 1, when_stale, num_repeats: 2, max_in_flight: 64, samples: 8, epochs: null }; // prettier-ignore
  const found = { pacing: pacingFrom(), is_published: false, is_versioned: false, kept_from: 0, out: [], admitted_before: 0 }; // prettier-ignore
  const rest = { limits: {}, filter: null, max_replacements: 0, keep_steps: null };
  return openStream({ stream_id: 's', service: 'default', pacing, found, ...rest } as unknown as StreamPlan); // prettier-ignore
}

const published = (born: number | null, target: number) => ({
  served: born ?? 0,
  is_published: true,
  born,
  target,
});

/** Admits one group as its activity would, and completes it. */
function played(stream: Stream, { born }: { born: number | null }): number {
  const group = stream.pacing().admitted;
  stream.admitted([{ group, born }]);
  stream.completed(group);
  return group;
}

describe('a group that is admitted before anybody knows a version', () => {
  test('has none, also when the trainer gives the first one', () => {
    const stream = opened();
    assert.equal(stream.born(), null);
    stream.admitted([{ group: 0, born: stream.born() }]);
    stream.asked(5);
    assert.equal(stream.pacing().groups[0]?.born, null);
    assert.equal(stream.born(), 5);
  });

  test('has none while the first weights are on their way', () => {
    const stream = opened();
    stream.serves(published(null, 5));
    assert.equal(stream.born(), null);
    stream.serves(published(5, 5));
    assert.equal(stream.born(), 5);
  });

  for (const when_stale of ['drop', 'mask'] as const)
    test(`would only be thrown away with ${when_stale}: it is not admitted`, () => {
      const stream = opened(when_stale);
      assert.equal(stream.room(), 0);
      stream.serves(published(null, 5));
      assert.equal(stream.room(), 0);
      stream.serves(published(5, 5));
      assert.ok(stream.room() > 0);
    });

  test('is not too old if the trainer knows no version either', () => {
    const stream = opened('drop');
    stream.asked(undefined);
    assert.ok(stream.room() > 0);
    const groups = [played(stream, { born: null }), played(stream, { born: null })];
    const next = stream.next();
    assert.ok(next.ready);
    assert.deepEqual([next.groups, next.dropped], [groups, []]);
    assert.equal(stream.factOf(next).version, null);
  });

  test('is dropped once a version is known', () => {
    const stream = opened('drop');
    const groups = [played(stream, { born: null }), played(stream, { born: null })];
    stream.asked(5);
    assert.deepEqual(stream.next().dropped, groups);
  });
});

describe('a step for which no version is given', () => {
  test('is of the last version that anyone has published, also while it is on its way', () => {
    const stream = opened();
    stream.serves(published(4, 4));
    stream.serves(published(4, 5));
    stream.asked(undefined);
    assert.equal(stream.pacing().version, 5);
  });

  test('is of the last one that the trainer gave, without a policy', () => {
    const stream = opened();
    stream.asked(7);
    played(stream, { born: 7 });
    played(stream, { born: 7 });
    const next = stream.next();
    assert.ok(next.ready);
    stream.put(stream.factOf(next));
    stream.asked(undefined);
    assert.equal(stream.pacing().version, 7);
  });
});

test('what has to be published first is never below what was published', () => {
  const stream = opened();
  stream.serves(published(4, 4));
  // No engine could load 6 and 7.
  stream.serves(published(4, 7));
  stream.asked(7);
  const next = stream.next();
  assert.ok(!next.ready && next.why.kind === 'publish');
  assert.equal(next.why.publish, 7);
});
