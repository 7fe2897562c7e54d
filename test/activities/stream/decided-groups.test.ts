/** What a stream leaves in its store: of groups that are decided nothing but their step, of forgotten steps nothing. */
import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { StepFact, StepResult } from '../../../src/activities/contract/stream.js';
import { forgetDecided, streamFacts } from '../../../src/activities/stream/stream-facts.js';
import { findState } from '../../../src/activities/stream/find-stream.js';
import { StreamRequest } from '../../../src/model/stream/stream-request.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import { dyingStore } from '../../fakes/dying-store.js';
import { stepActivities } from '../../fakes/step-activities.js';
import { onEachStore } from '../../fakes/stores.js';
import { BATCH, faultOf, sampleOf } from '../../fakes/temporary-store.js';
import { writeRollout } from '../../fakes/written-rollout.js';

const STEPS = 3;
const VERSION = 7;
const NUM_REPEATS = 2;
/** Each step has two groups, and one is discarded before it; two more groups are open. */
const OPEN = [3 * STEPS, 3 * STEPS + 1];

const discardedIn = (step: number) => (step % 2 === 0 ? 'filtered' : 'dropped');

const stepFact = (step: number): StepFact => {
  const none = { filtered: 0, dropped: 0, failed: 0 };
  return {
    ...{ schema_version: 1, step, version: VERSION, final: false, open: OPEN },
    groups: [3 * step, 3 * step + 1],
    out: [{ group: 3 * step + 2, as: discardedIn(step) }],
    admitted: 3 * STEPS + 2,
    totals: { ...none, delivered: 2 * (step + 1) },
    counts: { in_flight: 1, banked: 1, admitted: 3, ...none },
  };
};

const activitiesOf = (store: TrajectoryStore) => stepActivities(store, { warn: () => undefined });

/** Groups that have been played. The first of each step has a member that replaced another. */
async function playGroups(store: TrajectoryStore, id: string): Promise<void> {
  const request = StreamRequest.parse({
    ...{ samples: { path: 'samples.jsonl' }, groups_per_step: 2, max_lag: 3 },
    num_repeats: NUM_REPEATS,
  });
  await store.createBatch({ batch_id: id, request, samples: [sampleOf('one')] });
  const { admitted, ended, dropped } = streamFacts(id, store.facts);
  const play = async (group: number): Promise<void> => {
    await admitted.put(group, { group, born: group % 3 });
    const members = group % 3 === 0 ? NUM_REPEATS + 1 : NUM_REPEATS;
    for (let repeat = 0; repeat < members; repeat++)
      await writeRollout(store, { batch_id: id, row: group, repeat });
    const as = group % 3 === 2 ? discardedIn(Math.floor(group / 3)) : 'complete';
    if (as === 'dropped') await dropped.put(group, { group });
    else if (group !== OPEN[1])
      await ended.put(group, { group, outcome: as, valid: NUM_REPEATS, members });
  };
  await Promise.all(Array.from({ length: 3 * STEPS + 2 }, (_, group) => play(group)));
}

/** The groups of which a fact is there. */
async function groupsWithFacts(store: TrajectoryStore, id: string): Promise<Set<number>> {
  const { admitted, ended, dropped } = streamFacts(id, store.facts);
  const found = new Set<number>();
  for (let group = 0; group < 3 * STEPS + 2; group++)
    for (const facts of [admitted, ended, dropped])
      if ((await facts.find(group)) !== null) found.add(group);
  return found;
}

async function numbersIn(facts: { find: (n: number) => Promise<unknown> }): Promise<number[]> {
  const found: number[] = [];
  for (let n = 0; n < 10; n++) if ((await facts.find(n)) !== null) found.push(n);
  return found;
}

async function putAndClose(store: TrajectoryStore, id: string): Promise<StepResult[]> {
  const { putStep, closeStep } = activitiesOf(store);
  const results: StepResult[] = [];
  for (let step = 0; step < STEPS; step++) {
    await putStep({ stream_id: id, fact: stepFact(step) });
    results.push(await closeStep({ stream_id: id, step }));
  }
  return results;
}

/** What two streams of the same groups have in common, beside what depends on the time. */
function withoutTimes({ counts, metrics, step, version }: StepResult) {
  const same = Object.entries(metrics).filter(([name]) => /^(lag|stream)\/|reward/.test(name));
  return { counts, metrics: Object.fromEntries(same), step, version };
}

onEachStore((open) => {
  describe('groups that a step has decided', () => {
    test('leave what its rows need in the fact of the step, not in the workflow', async (t) => {
      const { store, elsewhere } = await open(t);
      await playGroups(store, BATCH);
      const put = await activitiesOf(store).putStep({ stream_id: BATCH, fact: stepFact(0) });
      assert.deepEqual(put, stepFact(0));
      const found = await streamFacts(BATCH, elsewhere().facts).steps.find(0);
      assert.deepEqual(found?.delivered, [
        { group: 0, born: 0, members: 3 },
        { group: 1, born: 1, members: 2 },
      ]);
    });

    test('leave nothing else once its rows are written, and the stream starts again from there', async (t) => {
      const { store, elsewhere } = await open(t);
      await playGroups(store, BATCH);
      const [first] = await putAndClose(store, BATCH);
      assert.deepEqual(first?.counts, {
        requested: 5,
        completed: 5,
        failed: 0,
        timed_out: 0,
        stopped: 0,
        cancelled: 0,
      });
      assert.deepEqual([first.metrics['lag/max'], first.metrics['lag/over']], [7, 2]);
      assert.deepEqual(await groupsWithFacts(elsewhere(), BATCH), new Set(OPEN));
      const { pacing } = await findState(streamFacts(BATCH, elsewhere().facts), {
        num_repeats: NUM_REPEATS,
      });
      assert.deepEqual(pacing.groups, [
        { group: OPEN[0], born: 0, state: 'complete', in_flight: 0 },
        { group: OPEN[1], born: 1, state: 'running', in_flight: NUM_REPEATS },
      ]);
      assert.deepEqual([pacing.next_step, pacing.admitted], [STEPS, 3 * STEPS + 2]);
      // Their journals stay for whoever looks at them.
      const rows = (await elsewhere().listJournals(BATCH)).map(({ row }) => row);
      assert.equal(new Set(rows).size, 3 * STEPS + 2);
    });

    test('are not asked for again: a step has its rows, whatever is left of its groups', async (t) => {
      const { store } = await open(t);
      const results: StepResult[] = [];
      for (const id of ['kept', 'gone']) {
        await playGroups(store, id);
        const { putStep, closeStep } = activitiesOf(store);
        await putStep({ stream_id: id, fact: stepFact(0) });
        if (id === 'gone') await forgetDecided(stepFact(0), streamFacts(id, store.facts));
        results.push(await closeStep({ stream_id: id, step: 0 }));
      }
      const [kept, gone] = results.map(withoutTimes);
      assert.deepEqual(gone, kept);
    });

    test('are forgotten and delivered once, wherever an attempt is killed', async (t) => {
      const { store, most_runs, copyBatch } = await open(t);
      await playGroups(store, 'played');
      await copyBatch('played', 'whole');
      const expected = (await putAndClose(store, 'whole')).map(withoutTimes);
      let change = 0;
      for (let isDead = true; isDead; change += most_runs === Infinity ? 1 : 4) {
        const id = `killed-${change}`;
        await copyBatch('played', id);
        const dying = dyingStore(store, change);
        await putAndClose(dying.store, id).catch(() => undefined);
        isDead = dying.hasDied();
        assert.deepEqual((await putAndClose(store, id)).map(withoutTimes), expected, id);
        assert.deepEqual(await groupsWithFacts(store, id), new Set(OPEN), id);
      }
      assert.ok(change > 20, `${change} changes`);
    });
  });

  describe('steps that are forgotten', () => {
    const checkNothingIsLeft = async (
      id: string,
      { store, outputs, through }: { store: TrajectoryStore; outputs: string; through: number },
    ): Promise<void> => {
      const { steps, forgotten } = streamFacts(id, store.facts);
      assert.deepEqual(
        await numbersIn(steps),
        [...Array(STEPS).keys()].filter((step) => step >= through),
        id,
      );
      assert.equal((await numbersIn(forgotten)).length, 1, id);
      assert.equal((await forgotten.last(-1))?.value.through, through);
      const rows = new Set((await store.listJournals(id)).map(({ row }) => row));
      for (let group = 0; group < 3 * (through + 1); group++) assert.ok(!rows.has(group), id);
      assert.equal(rows.size, 3 * (STEPS - through - 1) + OPEN.length, id);
      const folders = await readdir(path.join(outputs, id, 'steps'));
      for (let step = 0; step < through; step++) assert.ok(!folders.includes(String(step)), id);
      const { pacing, kept_from } = await findState(streamFacts(id, store.facts), {
        num_repeats: NUM_REPEATS,
      });
      assert.deepEqual([pacing.next_step, kept_from], [STEPS, through + 1], id);
    };

    test('leave nothing but the last one’s fact, by which the stream knows where it is', async (t) => {
      const { store, elsewhere, outputs } = await open(t);
      await playGroups(store, BATCH);
      await putAndClose(store, BATCH);
      for (const through of [0, 1, 2]) {
        await activitiesOf(store).forgetSteps({ stream_id: BATCH, through });
        await checkNothingIsLeft(BATCH, { store: elsewhere(), outputs, through });
        await assert.rejects(
          activitiesOf(elsewhere()).closeStep({ stream_id: BATCH, step: 0 }),
          faultOf('StepOutOfOrder', `steps from ${through + 1} on are kept`),
        );
      }
    });

    test('leave nothing, wherever an attempt is killed, and whether it or a later one goes on', async (t) => {
      const { store, outputs, most_runs, copyBatch } = await open(t);
      await playGroups(store, 'closed');
      await putAndClose(store, 'closed');
      let change = 0;
      for (let isDead = true; isDead; change += most_runs === Infinity ? 1 : 4) {
        for (const again of [1, 2]) {
          const id = `forgotten-${change}-${again}`;
          await copyBatch('closed', id);
          const dying = dyingStore(store, change);
          await activitiesOf(dying.store)
            .forgetSteps({ stream_id: id, through: 1 })
            .catch(() => undefined);
          isDead = dying.hasDied();
          await activitiesOf(store).forgetSteps({ stream_id: id, through: again });
          await checkNothingIsLeft(id, { store, outputs, through: again });
        }
      }
      assert.ok(change > 10, `${change} changes`);
    });

    test('take along what a killed attempt to write them has begun', async (t) => {
      const { store, outputs } = await open(t);
      await playGroups(store, BATCH);
      await putAndClose(dyingStore(store, 3).store, BATCH).catch(() => undefined);
      await putAndClose(store, BATCH);
      const begun = path.join(outputs, BATCH, 'steps', '0', 'parts', '0-1');
      await mkdir(begun, { recursive: true });
      await writeFile(path.join(begun, 'rollouts.jsonl.1234abcd'), '{}\n');
      await activitiesOf(store).forgetSteps({ stream_id: BATCH, through: 1 });
      await checkNothingIsLeft(BATCH, { store, outputs, through: 1 });
    });
  });
});
