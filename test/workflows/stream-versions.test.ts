/** What a stream knows of versions: of its groups' births, and of a step for which no version is given. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { StreamPlan } from '../../src/activities/contract/stream.js';
import { pacingFrom } from '../../src/model/workflow-safe/stream/state.js';
import type { Stream } from '../../src/workflows/stream/stream-state.js';
import { openStream } from '../../src/workflows/stream/stream-state.js';
import { whyWithWaiting } from '../../src/workflows/stream/stream-view.js';

function opened(when_stale: 'wait' | 'drop' | 'mask' = 'wait'): Stream {
  const pacing = {
    groups_per_step: 2,
    max_lag: 1,
    versions_per_step: 1,
    when_stale,
    num_repeats: 2,
    max_in_flight: 64,
    samples: 8,
    epochs: null,
  };
  const found = {
    pacing: pacingFrom(),
    is_published: false,
    is_versioned: false,
    kept_from: 0,
    out: [],
    admitted_before: 0,
  };
  const rest = { limits: {}, filter: null, max_replacements: 0, keep_steps: null };
  return openStream({
    stream_id: 's',
    service: 'default',
    pacing,
    found,
    ...rest,
  } as unknown as StreamPlan);
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

describe('groups that a jump of versions has made too old', () => {
  const jumped = (when_stale: 'wait' | 'drop' | 'mask' = 'wait'): Stream => {
    const stream = opened(when_stale);
    stream.serves(published(4, 4));
    stream.asked(4);
    played(stream, { born: 4 });
    played(stream, { born: 4 });
    const next = stream.next();
    assert.ok(next.ready);
    stream.put(stream.factOf(next));
    stream.admitted([
      { group: 2, born: 4 },
      { group: 3, born: 4 },
    ]);
    stream.completed(3);
    // No engine could load 5 to 8.
    stream.serves(published(9, 9));
    stream.asked(9);
    return stream;
  };

  test('are spoken of while their step waits', () => {
    assert.equal(
      whyWithWaiting(jumped()),
      'step 1 takes 2 groups: 1 complete, 1 running; groups 2, 3 may have tokens up to 5 versions behind version 9, max_lag is 1; versions went from 4 to 9 in one step, versions_per_step is 1: they come first',
    );
  });

  test('are not where they are dropped or masked, and where nothing has jumped', () => {
    for (const when_stale of ['drop', 'mask'] as const)
      assert.doesNotMatch(whyWithWaiting(jumped(when_stale)), /come first/);
    const stream = opened();
    stream.serves(published(4, 4));
    stream.admitted([{ group: 0, born: 4 }]);
    stream.asked(5);
    assert.equal(whyWithWaiting(stream), 'step 0 takes 2 groups: 0 complete, 1 running');
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
