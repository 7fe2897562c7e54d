import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Entry } from '../../src/model/journal.js';
import type { Journal } from '../../src/trajectories/trajectory-store.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { onEachStore } from '../fakes/stores.js';
import { REF, faultOf } from '../fakes/temporary-store.js';
import { openAnswer } from '../../src/model/journal/open-answers.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { turnsOf } from '../../src/model/journal/calls.js';

const by = { activity: 'playTurns' };
const a = author('ignored');

const start = entryOf(a.start());
const chunk = (offset: number, ...token_ids: number[]): Entry =>
  entryOf(a.chunk({ offset, token_ids }));
const generation = (token_count: number): Entry => entryOf(a.generation({ token_count }));
const observation = entryOf(a.observation({ reward: 1 }));

async function playTurn(journal: Journal): Promise<void> {
  for (const line of [chunk(0, 1, 2), generation(2), observation]) await journal.append(line);
}

onEachStore((open) => {
  describe('a claim', () => {
    test('of a rollout that never started creates its journal', async (t) => {
      const { store, journalLines } = await open(t);
      const journal = await store.claim(REF, { activity: 'openRollout', reopen: true });
      assert.equal(journal.trajectory.start, null);
      await journal.commit();
      const [line, ...more] = await journalLines();
      assert.deepEqual(more, []);
      assert.ok(line?.kind === 'claim');
      assert.deepEqual(
        [line.writer, line.activity, line.reopen],
        [journal.writer, 'openRollout', true],
      );
      assert.ok(Math.abs(line.at - Date.now() / 1000) < 60);
    });

    test('inherits the journal, and what it appends is folded in', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await first.append(chunk(0, 1, 2, 3));
      await first.release();
      const second = await elsewhere().claim(REF, { ...by, attempt: 2 });
      assert.notEqual(second.writer, first.writer);
      assert.deepEqual(openAnswer(second.trajectory).token_ids, [1, 2, 3]);
      await second.append(chunk(3, 4));
      assert.deepEqual(openAnswer(second.trajectory).token_ids, [1, 2, 3, 4]);
      await second.commit();
      const read = await elsewhere().readTrajectory(REF);
      assert.deepEqual(openAnswer(read).token_ids, [1, 2, 3, 4]);
      assert.equal(read.attempts, 2);
    });
  });

  describe('a second claim', () => {
    test('makes the commit of the first throw a retryable StoreFault that names the rollout', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await elsewhere().claim(REF, by);
      await assert.rejects(first.commit(), (error: unknown) => {
        assert.ok(faultOf('StoreFault', 'another attempt has taken over', 'batch/0-0')(error));
        return (error as { retryable: boolean }).retryable;
      });
    });

    test('makes the first hear of it with its next line that has to be stored', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await first.stored();
      assert.notEqual((await elsewhere().readTrajectory(REF)).start, null);
      const second = await elsewhere().claim(REF, by);
      await first.append(chunk(0, 1)).catch(() => undefined);
      const takenOver = faultOf('StoreFault', 'taken over');
      await assert.rejects(first.stored(), takenOver);
      await assert.rejects(first.stored(), takenOver);
      await second.stored();
    });

    test('makes the first hear of it when it asks whether its lines are stored, though none is new', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await first.stored();
      await first.stored();
      await elsewhere().claim(REF, by);
      await assert.rejects(first.stored(), faultOf('StoreFault', 'taken over'));
    });

    test('makes the sync of the first throw the same', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await first.sync();
      await elsewhere().claim(REF, by);
      await first.append(chunk(0, 1));
      await assert.rejects(first.sync(), faultOf('StoreFault', 'taken over'));
    });

    test('after a sync finds what was synced; without one, the first continues', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await first.sync();
      await first.append(chunk(0, 1));
      await first.commit();
      const { trajectory } = await elsewhere().claim(REF, by);
      assert.deepEqual(openAnswer(trajectory).token_ids, [1]);
    });

    test('in the same process, too', async (t) => {
      const { store } = await open(t);
      const first = await store.claim(REF, by);
      const second = await store.claim(REF, by);
      assert.notEqual(first.trajectory, second.trajectory, 'two attempts share a trajectory');
      await assert.rejects(first.commit(), faultOf('StoreFault', 'taken over'));
      await second.commit();
    });

    test('that opens a rollout which its run is about to finish gets nothing, and costs who finishes an attempt', async (t) => {
      const { store, elsewhere } = await open(t);
      const finishing = { activity: 'finishRollout', run: 'a' };
      const first = await store.claim(REF, finishing);
      const opening = elsewhere().claim(REF, { activity: 'openRollout', reopen: true, run: 'a' });
      await assert.rejects(opening, faultOf('StoreFault', 'taken over'));
      await assert.rejects(
        first.append(entryOf(a.end({ stop_reason: 'stopped' }))).then(() => first.commit()),
        faultOf('StoreFault', 'taken over'),
      );
      const second = await store.claim(REF, { ...finishing, attempt: 2 });
      // Files have what the first has written; it was the holder.
      if (second.trajectory.end === null)
        await second.append(entryOf(a.end({ stop_reason: 'stopped' })));
      await second.commit();
      assert.equal((await elsewhere().readTrajectory(REF)).end?.stop_reason, 'stopped');
    });

    test('lets the zombie write, unheard, and commits itself', async (t) => {
      const { store, elsewhere } = await open(t);
      const zombie = await store.claim(REF, by);
      await zombie.append(start);
      await zombie.sync();
      // It may hear of its loss before it commits.
      const writeUnheard = (line: Entry): Promise<void> =>
        zombie.append(line).catch((error: unknown) => {
          assert.ok(faultOf('StoreFault', 'taken over')(error));
        });
      const second = await elsewhere().claim(REF, by);
      await second.append(chunk(0, 1, 2));
      await writeUnheard(chunk(0, 66));
      await second.append(generation(2));
      await writeUnheard(generation(1));
      await second.append(observation);
      await second.commit();
      const played = await elsewhere().readTrajectory(REF);
      const { total_reward } = played;
      const turns = turnsOf(played);
      assert.deepEqual(turns[0]?.token_ids, [1, 2]);
      assert.equal(total_reward, 1);
      await assert.rejects(zombie.commit(), faultOf('StoreFault', 'taken over'));
    });

    test('after the first has committed takes nothing from it', async (t) => {
      const { store, elsewhere } = await open(t);
      const first = await store.claim(REF, by);
      await first.append(start);
      await playTurn(first);
      await first.commit();
      assert.equal((await elsewhere().claim(REF, by)).trajectory.observations.length, 1);
    });
  });

  describe('an appended line', () => {
    test('that would not read back is refused for good, and is not written', async (t) => {
      const { store, journalLines } = await open(t);
      const journal = await store.claim(REF, by);
      await journal.append(start);
      await journal.append(chunk(0, 1));
      await journal.append(generation(1));
      const broken = entryOf(a.observation({ reward: Number.NaN }));
      await assert.rejects(journal.append(broken), (error: unknown) => {
        assert.ok(faultOf('StoreFault', 'journal of batch/0-0', 'reads back')(error));
        return !(error as { retryable: boolean }).retryable;
      });
      assert.deepEqual(turnsOf(journal.trajectory), []);
      assert.ok((await journalLines()).every((line) => line.kind !== 'observation'));
    });

    test('is folded as it will be read: memory and file never differ', async (t) => {
      const { store, elsewhere } = await open(t);
      const journal = await store.claim(REF, by);
      await journal.append(start);
      await journal.append(chunk(0, 1));
      await journal.append(generation(1));
      const metadata = { zero: -0, gone: undefined, nan: Number.NaN };
      await journal.append(entryOf(a.observation({ metadata })));
      await journal.commit();
      assert.deepEqual(plainOf(journal.trajectory.extra_env_info), { zero: 0, nan: null });
      assert.deepEqual(await elsewhere().readTrajectory(REF), journal.trajectory);
    });
  });

  describe('reading', () => {
    test('claims nothing', async (t) => {
      const { store, elsewhere } = await open(t);
      const journal = await store.claim(REF, by);
      await journal.append(start);
      assert.equal((await elsewhere().readTrajectory(REF)).attempts, 1);
      await journal.commit();
    });

    test('of a rollout that never started is empty, and creates nothing', async (t) => {
      const { store } = await open(t);
      const { attempts, start: none } = await store.readTrajectory(REF);
      assert.deepEqual([attempts, none], [0, null]);
      assert.deepEqual(await store.listJournals(REF.batch_id), []);
    });

    test('keeps rollouts apart', async (t) => {
      const { store } = await open(t);
      for (const repeat of [0, 1]) {
        const journal = await store.claim({ ...REF, repeat }, by);
        await journal.append(start);
        if (repeat === 1) await playTurn(journal);
        await journal.commit();
      }
      assert.equal((await store.readTrajectory(REF)).observations.length, 0);
      assert.equal((await store.readTrajectory({ ...REF, repeat: 1 })).observations.length, 1);
    });
  });
});
