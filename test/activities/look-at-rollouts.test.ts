/** What a batch shows of rollouts that run: read from the ends of their journals. */
import assert from 'node:assert/strict';
import { appendFile, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';

const a = author('');

async function write(
  bench: Bench,
  { row, lines }: { row: number; lines: JournalLine[] },
): Promise<void> {
  const journal = await bench.store.claim({ ...REF, row }, { activity: 'playTurns' });
  for (const line of lines) await journal.append(entryOf(line));
  await journal.commit();
}

const waited = (call: string, tries: number) => ({ call, tries, since: 0 });
const fault = (tries: number, message = 'busy') =>
  a.fault({
    type: 'EnvironmentUnavailable',
    message,
    replica: 'http://env',
    waited: waited('environment task', tries),
  });

const look = (bench: Bench) => bench.result('lookAtRollouts', { batch_id: BATCH });

describe('a look at a batch', () => {
  test('counts turns and tokens of rollouts that run, also of the turn in progress, and of those that have ended', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await write(bench, {
      row: 1,
      lines: [
        a.start(),
        ...wholeTurn(a, { ids: [1, 2] }).map((line) =>
          line.kind === 'observation' ? { ...line, total_tokens: 3 } : line,
        ),
        a.chunk({ turn: 1, token_ids: [1, 2, 3, 4] }),
      ],
    });
    const totals = { turn_count: 7, total_reward: 0, total_tokens: 70 };
    await write(bench, { row: 2, lines: [a.start(), a.end({ totals })] });
    const { turns, tokens, waiting } = await look(bench);
    assert.deepEqual({ turns, tokens, waiting }, { turns: 8, tokens: 77, waiting: null });
  });

  test('tells what most of those that wait are waiting for, and of the one that tried most often', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    for (const [row, tries] of [2, 5, 1].entries())
      await write(bench, {
        row: row + 1,
        lines: [a.start(), a.chunk(), a.generation(), fault(tries, `busy ${tries}`)],
      });
    await write(bench, { row: 9, lines: [a.start(), a.fault({ replica: 'http://engine' })] });
    assert.deepEqual((await look(bench)).waiting, {
      service: 'http://env',
      call: 'environment task',
      message: 'busy 5',
      tries: 5,
      since: '1970-01-01 00:00:00 UTC',
      rollouts: 3,
    });
  });

  test('tells of an environment that gives no answer at all, by name', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    // Long ago: the journal itself would say when.
    const lines = [a.chunk(), a.generation()];
    await appendFile(
      bench.journalFile(),
      lines.map(({ kind, ...line }) => `${JSON.stringify({ kind, ...line })}\n`).join(''),
    );
    const { waiting } = await look(bench);
    assert.deepEqual(
      [waiting?.call, waiting?.message, waiting?.rollouts],
      ['environment task', 'no answer yet', 1],
    );
  });

  test('waits for no rollout that runs no more, whatever its journal says', async (t) => {
    const bench = await activityBench(t, {
      waitOf: () => Promise.resolve(null),
      isOver: (id) => Promise.resolve(id === 'batch/1-0'),
    });
    await write(bench, { row: 1, lines: [a.start(), fault(3, 'terminated')] });
    await write(bench, { row: 2, lines: [a.start(), fault(2, 'runs')] });
    const seen = async (running?: [number, number][]) => {
      const { waiting } = await bench.result('lookAtRollouts', {
        batch_id: BATCH,
        ...(running !== undefined && { running }),
      });
      return [waiting?.message, waiting?.rollouts];
    };
    assert.deepEqual(await seen([[2, 0]]), ['runs', 1], 'the batch says who runs');
    assert.deepEqual(await seen(), ['runs', 1], 'a batch of slices asks Temporal');
    assert.deepEqual(await seen([]), [undefined, undefined]);
  });

  test('asks Temporal for the first rollout that runs and has no journal yet', async (t) => {
    const asked: string[] = [];
    const wait = { service: 'a worker of task queue q', message: 'none polls it' };
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(wait);
      },
    });
    await write(bench, { row: 1, lines: [a.start(), fault(3)] });
    const running: [number, number][] = [
      [1, 0],
      [4, 0],
      [5, 0],
    ];
    const { waiting } = await bench.result('lookAtRollouts', { batch_id: BATCH, running });
    assert.deepEqual([waiting, asked], [wait, ['batch/4-0']]);
  });

  test('counts what rollouts without workflows wait for, and asks Temporal for their slice', async (t) => {
    const asked: string[] = [];
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(null);
      },
      isOver: () => Promise.resolve(true),
    });
    await bench.store.createBatch({
      batch_id: BATCH,
      request: requestOf({ rollout_workflows: false }),
      samples: Array.from({ length: 200 }, () => sampleOf('go')),
    });
    await write(bench, { row: 1, lines: [a.start(), fault(3)] });
    // A file that the disk had no room for a line in.
    await write(bench, { row: 130, lines: [] });
    await writeFile(bench.journalFile(130), '');
    const { waiting } = await look(bench);
    assert.deepEqual([waiting?.message, waiting?.rollouts], ['busy', 1]);
    assert.deepEqual(asked, ['batch/rows-0-127', 'batch/rows-128-199']);
  });

  test('asks Temporal for a rollout that was started by hand under the id of its batch', async (t) => {
    const asked: string[] = [];
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(null);
      },
    });
    const running: [number, number][] = [[0, 0]];
    await bench.result('lookAtRollouts', { batch_id: 'alone', running, by_hand: true });
    assert.deepEqual(asked, ['alone']);
  });

  const SILENT = { service: 'generation service default', message: 'no answer yet' };
  const ASLEEP = { service: 'http://engine', message: 'the engine is asleep' };
  const BUSY = { service: 'http://env', message: '503', call: 'environment task', tries: 2 };
  for (const [what, told, shown] of [
    ['says why itself', ASLEEP, ASLEEP],
    ['says nothing', null, SILENT],
    ['is not what the quietest rollout waits for', BUSY, SILENT],
  ] as const)
    test(`tells of an engine that gives no answer and ${what}`, async (t) => {
      const bench = await activityBench(t, { waitOf: () => Promise.resolve(told) });
      await bench.started();
      await appendFile(bench.journalFile(), `${JSON.stringify(a.chunk())}\n`);
      const { waiting } = await look(bench);
      const { service, message, call } = waiting ?? assert.fail();
      assert.deepEqual({ service, message }, shown);
      assert.equal(call, 'generation service default');
    });

  test('tells of a store that cannot be written, which no journal can say, whatever the journals say', async (t) => {
    const wait = { service: 'the store', message: 'journal of batch/2-0: ENOSPC', tries: 4 };
    const asked: string[] = [];
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(wait);
      },
    });
    await bench.started();
    await write(bench, { row: 1, lines: [a.start(), fault(3)] });
    // A file that the disk had no room for a line in.
    await writeFile(bench.journalFile(2), '');
    assert.deepEqual((await look(bench)).waiting, wait);
    assert.deepEqual(asked, ['batch/2-0'], 'only the one that has been quiet the longest is asked');
  });

  test('tells of a store in which no journal could begin', async (t) => {
    const wait = { service: 'the store', message: 'journal of batch/0-0: EROFS', tries: 1 };
    const waitOf = (id: string) => Promise.resolve(id === 'batch/0-0' ? wait : null);
    const bench = await activityBench(t, { waitOf });
    assert.deepEqual((await look(bench)).waiting, wait);
  });

  const FULL = { service: 'the store', message: 'journal of batch/1-0: ENOSPC', tries: 4 };
  /** Answers for one workflow. */
  const onlyFor = (workflow: string) => (id: string) =>
    Promise.resolve(id === workflow ? FULL : null);

  test('tells of a full disk although a rollout that has not begun only waits for a slot', async (t) => {
    const bench = await activityBench(t, { waitOf: onlyFor('batch/1-0') });
    await bench.started();
    await appendFile(bench.journalFile(1), `${JSON.stringify(a.chunk())}\n`);
    const running: [number, number][] = [
      [1, 0],
      [7, 0],
    ];
    const { waiting } = await bench.result('lookAtRollouts', { batch_id: BATCH, running });
    assert.deepEqual(waiting, FULL);
  });

  test('tells of a full disk although an earlier run has left a journal without an end', async (t) => {
    const bench = await activityBench(t, { waitOf: onlyFor('batch/1-0') });
    await bench.started();
    await appendFile(bench.journalFile(0), `${JSON.stringify(a.chunk())}\n`);
    await appendFile(bench.journalFile(1), `${JSON.stringify({ ...a.chunk(), at: 1000 })}\n`);
    assert.deepEqual((await look(bench)).waiting, FULL);
  });

  test('tells of a full disk on which no journal of a batch of slices could begin any more', async (t) => {
    const bench = await activityBench(t, { waitOf: onlyFor('batch/1-0') });
    await bench.store.createBatch({
      batch_id: BATCH,
      request: requestOf(),
      samples: Array.from({ length: 200 }, () => sampleOf('go')),
    });
    await write(bench, { row: 0, lines: [a.start(), a.end()] });
    assert.deepEqual((await look(bench)).waiting, FULL);
  });

  test('tells of a full disk on which the rows of a slice are closed', async (t) => {
    const bench = await activityBench(t, { waitOf: onlyFor('batch/rows-0-127') });
    await bench.store.createBatch({
      batch_id: BATCH,
      request: requestOf(),
      samples: Array.from({ length: 200 }, () => sampleOf('go')),
    });
    await write(bench, { row: 1, lines: [] });
    await writeFile(bench.journalFile(1), `${JSON.stringify(a.end())}\n`);
    assert.deepEqual((await look(bench)).waiting, FULL);
  });

  test('counts rollouts that an earlier run has ended with a row, and no replacement of one', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    const totals = { turn_count: 1, total_reward: 0.5, total_tokens: 9 };
    const valid = a.end({ stop_reason: 'terminated', totals });
    await write(bench, { row: 1, lines: [a.start(), valid] });
    await write(bench, { row: 2, lines: [a.start(), valid] });
    await write(bench, { row: 3, lines: [a.start(), a.end({ stop_reason: 'failed', totals })] });
    const journal = await bench.store.claim({ ...REF, repeat: 5 }, { activity: 'playTurns' });
    await journal.append(entryOf(valid));
    await journal.commit();
    assert.deepEqual((await look(bench)).ended, { valid: 2, reward_sum: 1 });
    const of = await activityBench(t);
    await of.store.createBatch({
      batch_id: BATCH,
      request: requestOf({ overlong: 'drop' }),
      samples: [sampleOf('go')],
    });
    assert.equal((await look(of)).ended, undefined, 'a truncated one may be no row');
  });

  test('asks Temporal for no rollout that has just moved, and for nothing but the store', async (t) => {
    const waits = { service: 'http://engine', message: 'refused', tries: 4 };
    let asked = 0;
    const bench = await activityBench(t, {
      waitOf: () => {
        asked += 1;
        return Promise.resolve(waits);
      },
    });
    assert.equal((await look(bench)).waiting, null);
    await write(bench, { row: 0, lines: [] });
    assert.equal((await look(bench)).waiting, null);
    assert.equal(asked, 1);
  });

  const PAUSED = { service: 'an operator', message: 'it is paused' };

  test('asks Temporal for one that runs though its journal has its end: its workflow may be paused', async (t) => {
    const asked: string[] = [];
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(PAUSED);
      },
    });
    await bench.started();
    // Long ago.
    await appendFile(bench.journalFile(), `${JSON.stringify(a.end())}\n`);
    const running: [number, number][] = [[0, 0]];
    const { waiting } = await bench.result('lookAtRollouts', { batch_id: BATCH, running });
    assert.deepEqual([waiting, asked], [PAUSED, ['batch/0-0']]);
  });

  test('of a stream reads no journal but those of its running groups, whose workflows may be held up themselves', async (t) => {
    const asked: string[] = [];
    const bench = await activityBench(t, {
      waitOf: (id) => {
        asked.push(id);
        return Promise.resolve(id === 'batch/2' ? PAUSED : null);
      },
    });
    await write(bench, { row: 1, lines: [a.start(), fault(3, 'of a group that was delivered')] });
    const running: [number, number][] = [
      [2, 0],
      [2, 1],
    ];
    const seen = await bench.result('lookAtRollouts', {
      batch_id: BATCH,
      running,
      in_groups: true,
    });
    assert.deepEqual([seen.waiting, seen.turns, asked], [PAUSED, 0, ['batch/2-0', 'batch/2']]);
  });

  test('leaves out rollouts that have moved since, or have ended', async (t) => {
    const bench = await activityBench(t);
    await bench.started();
    await write(bench, { row: 1, lines: [a.start(), fault(3), a.chunk()] });
    await write(bench, { row: 2, lines: [a.start(), fault(3), a.end({ stop_reason: 'failed' })] });
    assert.equal((await look(bench)).waiting, null);
  });
});
