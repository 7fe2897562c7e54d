import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { chooseReplica } from '../../src/generation/replicas/replica-choice.js';

const urlOf = (i: number): string => `http://10.0.0.${i}:8000/v1`;
const standing = (i: number, { load = 0, until = null as number | null } = {}) => ({
  service: { replica: urlOf(i) },
  health: () => ({ aside: until === null ? null : { until } }),
  load,
});
type Standing = ReturnType<typeof standing>;
const sessions = Array.from({ length: 400 }, (_, i) => `batch/${i}-0`);
const chooseWithin =
  (limit: number) =>
  (all: readonly Standing[], session_id: string): string | null =>
    chooseReplica(all, { session_id, limit })?.service.replica ?? null;
const choose = chooseWithin(1);

describe('the replica of a rollout', () => {
  test('is the same whatever the order of the URLs, and up to 1.25 times the mean load and one', () => {
    const all = [1, 2, 3].map((i) => standing(i));
    for (const session of sessions.slice(0, 50)) {
      const own = choose(all, session);
      assert.equal(choose(all.toReversed(), session), own);
      const loaded = (own_load: number, load: number): Standing[] =>
        all.map((one) => ({ ...one, load: one.service.replica === own ? own_load : load }));
      // Means of 8.67 and 9: bounds of 11.8 and 12.25.
      for (const [own_load, load] of [
        [10, 8],
        [12, 9],
        [1, 0],
        [0, 50],
      ] as const)
        if (own_load <= (1.25 * (own_load + 2 * load)) / 3 + 1)
          assert.equal(chooseWithin(100)(loaded(own_load, load), session), own);
        else assert.fail(`${own_load} beside ${load} is above the bound`);
    }
  });

  test('changes for no rollout but its own when a replica leaves, and back when it returns', () => {
    const numbers = fc.uniqueArray(fc.integer({ min: 1, max: 250 }), {
      minLength: 2,
      maxLength: 8,
    });
    const cases = fc.record({
      urls: numbers,
      pick: fc.nat(),
      sessions: fc.array(fc.string(), { minLength: 1 }),
    });
    fc.assert(
      fc.property(cases, ({ urls, pick, sessions }) => {
        const all = urls.map((i) => standing(i));
        const gone = pick % all.length;
        const left = all.map((one, i) =>
          i === gone ? { ...one, health: () => ({ aside: { until: 0 } }) } : one,
        );
        for (const id of sessions) {
          const before = choose(all, id);
          const after = choose(left, id);
          assert.notEqual(after, all[gone]!.service.replica);
          if (before !== all[gone]!.service.replica) assert.equal(after, before);
          // One that is set aside and one that is not configured are the same.
          assert.equal(choose(all.toSpliced(gone, 1), id), after);
        }
      }),
    );
  });

  test('is any of them about as often as another', () => {
    const all = [1, 2, 3, 4].map((i) => standing(i));
    for (const { replica } of all.map(({ service }) => service)) {
      const share = sessions.filter((session) => choose(all, session) === replica).length;
      assert.ok(share > 60 && share < 140, `${replica} has ${share} of ${sessions.length}`);
    }
  });

  test('that is full, or above the bound, is left for the next in the order of the rollout', () => {
    const all = [1, 2, 3, 4].map((i) => standing(i));
    for (const session of sessions.slice(0, 50)) {
      const own = choose(all, session);
      const next = choose(
        all.filter(({ service }) => service.replica !== own),
        session,
      );
      const full = all.map((one) => (one.service.replica === own ? { ...one, load: 5 } : one));
      assert.equal(chooseWithin(5)(full, session), next);
      // A mean of 1.25: 2.57 are allowed.
      assert.equal(chooseWithin(100)(full, session), next);
    }
  });

  test('runs at most 1.25 times the mean and two, whatever the rollouts, and none is left out', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 20 }),
        fc.array(fc.string(), { maxLength: 200 }),
        (count, ids) => {
          const all = Array.from({ length: count }, (_, i) => ({ ...standing(i) }));
          for (const session_id of ids) {
            const chosen = chooseReplica(all, { session_id, limit: Infinity });
            assert.ok(chosen !== null);
            chosen.load += 1;
          }
          const most = Math.max(...all.map(({ load }) => load));
          assert.ok(
            most <= 1.25 * (ids.length / count) + 2,
            `${most} of ${ids.length} on ${count}`,
          );
        },
      ),
    );
  });

  test('that joins takes its share of what begins', () => {
    const before = [1, 2, 3].map((i) => standing(i, { load: 30 }));
    const all = [...before, standing(4)].map((one) => ({ ...one }));
    const begun = new Map<string, number>();
    for (const session_id of sessions.slice(0, 100)) {
      const chosen = chooseReplica(all, { session_id, limit: Infinity });
      assert.ok(chosen !== null);
      chosen.load += 1;
      begun.set(chosen.service.replica, (begun.get(chosen.service.replica) ?? 0) + 1);
    }
    assert.ok((begun.get(urlOf(4)) ?? 0) >= 20, JSON.stringify([...begun]));
  });

  test('is none while all healthy ones are full: those that are set aside are not asked', () => {
    assert.equal(chooseWithin(2)([standing(1, { load: 2 }), standing(2, { until: 7 })], 'a'), null);
  });

  test('is the one whose turn is next when all are set aside, within the same limit', () => {
    const all = [standing(1, { until: 900 }), standing(2, { until: 700 })];
    for (const session of sessions.slice(0, 20)) assert.equal(choose(all, session), urlOf(2));
    const full = [all[0]!, { ...all[1]!, load: 1 }];
    assert.equal(choose(full, 'a'), urlOf(1));
  });

  test('is the only one there is, healthy or not', () => {
    assert.equal(choose([standing(1)], 'a'), urlOf(1));
    assert.equal(choose([standing(1, { until: 1e9 })], 'a'), urlOf(1));
  });
});
