import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { readState } from '../../collection/state.js';
import { readRows } from '../harness/collection-files.js';
import { RESUME, bed, good, stateOf } from './choose-bed.js';

describe('a collection that is resumed', () => {
  test('collects from its batch while that runs, as wide as it is asked to be now', async (t) => {
    const { go, asked, said } = await bed(t);
    await go({ num_samples_in_parallel: 2 });
    assert.deepEqual(asked, ['start ID']);
    assert.deepEqual(await go({ ...RESUME, num_samples_in_parallel: 2 }), {
      rows: [0, 1, 2],
      running: true,
    });
    assert.deepEqual(asked, ['attach ID']);
    await go({ ...RESUME, num_samples_in_parallel: 8 });
    assert.deepEqual(asked, ['attach ID', 'width ID 8']);
    // No worker can make it wider: it is followed all the same.
    assert.deepEqual(await go({ ...RESUME, num_samples_in_parallel: 13 }), {
      rows: [0, 1, 2],
      running: true,
    });
    assert.match(said.join('\n'), /keeps its number of rows at once instead of 13: no worker/);
  });

  test('starts its batch id again where that was cut before all rows ended, with what ended written', async (t) => {
    const { go, asked, play, statuses, batchId, files } = await bed(t);
    await go();
    const id = await batchId();
    const journal = await play();
    await journal(1, good);
    await journal(2, null);
    statuses.set(id, 'ended');
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: true });
    assert.deepEqual(asked, ['start ID']);
    assert.equal(await batchId(), id);
    assert.deepEqual(
      readRows(files.main).map((row) => row['_ng_task_index']),
      [1],
    );
  });

  test('plays what failed in a batch of its own once the first has ended, with how often it failed', async (t) => {
    const { go, samples, play, statuses, batchId, files } = await bed(t);
    await go();
    const id = await batchId();
    const journal = await play();
    for (const [row, ending] of [good, { status: 500 }, good].entries()) await journal(row, ending);
    statuses.set(id, 'ended');
    const before = await stateOf(files.state);
    assert.deepEqual(await go(RESUME), { rows: [1], running: true });
    const state = await stateOf(files.state);
    assert.notEqual(state.batch_id, id);
    assert.deepEqual(state.rows, [[1, 0, 1]]);
    assert.ok(state.failures_from > 0, 'older failures are not this batch’s');
    assert.ok(existsSync(samples(state)) && !existsSync(samples(before)));
  });

  test('continues where the workers are: on the task queue that they serve by now, unless it still runs on another', async (t) => {
    const { go, play, statuses, batchId, said, queues, files } = await bed(t);
    await go();
    await play();
    await go(RESUME, { task_queue: 'q2' });
    assert.match(said.join('\n'), /runs on task queue q, and workers here serve q2/);
    statuses.set(await batchId(), 'ended');
    await go(RESUME, { task_queue: 'q2' });
    assert.deepEqual(queues, ['q', 'q2']);
    assert.equal((await stateOf(files.state)).task_queue, 'q2');
  });

  test('gets its samples back from the store where their file is gone', async (t) => {
    const { go, samples, statuses, batchId, files, plan } = await bed(t);
    await go();
    await plan();
    const samples_file = samples(await stateOf(files.state));
    const before = await readFile(samples_file, 'utf8');
    await rm(samples_file);
    statuses.set(await batchId(), 'ended');
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: true });
    assert.equal(await readFile(samples_file, 'utf8'), before);
  });

  test('plays what is left of a batch that was cut in another one where rows are to have more attempts, behind those that they had', async (t) => {
    const { go, play, statuses, batchId, files, said } = await bed(t);
    await go({}, { max_attempts: 2 });
    const id = await batchId();
    const journal = await play();
    await journal(0, good);
    await journal(1, null);
    await go(RESUME, { max_attempts: 5 });
    assert.match(
      said.join('\n'),
      /It gives each row 2 attempts, as it was started; 5 applies when it has ended/,
    );
    assert.equal(await batchId(), id);
    statuses.set(id, 'ended');
    assert.deepEqual(await go(RESUME, { max_attempts: 5 }), { rows: [1, 2], running: true });
    const state = await stateOf(files.state);
    assert.notEqual(state.batch_id, id);
    assert.deepEqual(
      [state.rows, state.max_attempts],
      [
        [
          [1, 0, 1],
          [2, 0, 0],
        ],
        5,
      ],
    );
  });

  test('plays rows again that an outage cost all the tries of their collection, until three collections have failed them', async (t) => {
    const { go, samples, play, statuses, batchId, files } = await bed(t);
    await go();
    for (const first of [0, 3, 6]) {
      const id = await batchId();
      const [sample] = readRows(samples(await stateOf(files.state))) as {
        extra_env_info: Record<string, number>;
      }[];
      assert.equal(sample?.extra_env_info['attempt_index'], first);
      assert.equal(sample.extra_env_info['max_attempts'], first + 3);
      const journal = await play(() => first);
      for (const row of [0, 1, 2]) {
        for (let attempt = 0; attempt < 3; attempt++) await journal(row, { status: 502 });
      }
      statuses.set(id, 'ended');
      const isLast = first === 6;
      assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: !isLast });
    }
    assert.equal(readRows(files.failures).length, 9);
  });

  test('starts nothing where all is done, though the last results were not written yet', async (t) => {
    const { go, asked, play, statuses, batchId, files } = await bed(t);
    await go();
    const journal = await play();
    for (const row of [2, 0, 1]) await journal(row, good);
    statuses.set(await batchId(), 'ended');
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: false });
    assert.deepEqual(asked, []);
    assert.deepEqual(
      readRows(files.main).map((row) => row['_ng_task_index']),
      [2, 0, 1],
    );
  });

  test('continues from upstream’s files where its batch is in another store', async (t) => {
    const { go, play, statuses, batchId, at, said, files } = await bed(t);
    await go();
    await (
      await play()
    )(0, good);
    statuses.set(await batchId(), 'ended');
    await writeFile(
      files.main,
      '{"reward":1,"_ng_task_index":2,"_ng_rollout_index":0,"agent_ref":{"name":"ag"}}\n',
    );
    const { rows } = await go(RESUME, { store_root: at('other') });
    assert.deepEqual(rows, [0, 1]);
    assert.match(said.join('\n'), /is in another store/);
  });

  test('plays only what has no result where its store was lost', async (t) => {
    const { go, play, statuses, batchId, at, files } = await bed(t);
    await go();
    const id = await batchId();
    const journal = await play();
    for (const row of [0, 1]) await journal(row, good);
    await go(RESUME);
    await writeFile(
      files.main,
      [0, 1].map((task) => `{"_ng_task_index":${task},"_ng_rollout_index":0}\n`).join(''),
    );
    statuses.set(id, 'ended');
    await rm(at('store'), { recursive: true });
    assert.deepEqual(await go(RESUME), { rows: [2], running: true });
    assert.notEqual(await batchId(), id);
    assert.equal(readRows(files.main).length, 2);
  });
});

describe('a fresh collection', () => {
  test('takes the place of a batch that only a stack of its own plays', async (t) => {
    const { go, batchId, statuses, said } = await bed(t);
    await go();
    const id = await batchId();
    statuses.set(id, 'running');
    await go({}, { folder: '/own' });
    assert.match(said.join('\n'), /Cancelling batch .*, which was played for out\.jsonl/);
    assert.notEqual(await batchId(), id);
  });

  test('is refused while a batch still plays into its file, unless that is to be replaced', async (t) => {
    const { go, asked, files, batchId } = await bed(t);
    await go();
    await writeFile(files.main, 'kept\n');
    const id = await batchId();
    await assert.rejects(
      go(),
      /still plays an earlier collection into out\.jsonl\.\nContinue it with \+resume_from_cache=true/,
    );
    assert.equal(await readFile(files.main, 'utf8'), 'kept\n');
    await go({}, { replace: true });
    assert.deepEqual(asked, ['cancel ID', 'start ID']);
    assert.notEqual(await batchId(), id);
    assert.ok(!existsSync(files.main));
  });

  test('clears the failures of the one before: they count for no row', async (t) => {
    const { go, files } = await bed(t);
    await writeFile(
      files.failures,
      '{"_ng_task_index":0,"_ng_rollout_index":0,"_ng_failure_class":"x"}\n',
    );
    await writeFile(files.aggregate, '[]');
    await go();
    assert.ok(!existsSync(files.failures) && !existsSync(files.aggregate));
    assert.equal((await readState(files.state))?.failures_from, 0);
  });

  test('removes and writes no file that only the state of the one before names', async (t) => {
    const { go, files, at, statuses, batchId, plan } = await bed(t);
    const names = { samples_file: at('mine.txt'), folder: at('home') };
    const hostile = async (): Promise<void> => {
      const state = JSON.parse(await readFile(files.state, 'utf8')) as object;
      await writeFile(files.state, JSON.stringify({ ...state, ...names }));
    };
    await go();
    await writeFile(at('mine.txt'), 'mine');
    await hostile();
    statuses.set(await batchId(), 'ended');
    await go();
    assert.equal(await readFile(at('mine.txt'), 'utf8'), 'mine');
    // Samples that are gone come back where they were.
    await rm(at('mine.txt'));
    await plan();
    statuses.set(await batchId(), 'ended');
    await hostile();
    await go(RESUME);
    assert.ok(!existsSync(at('mine.txt')) && !existsSync(at('home')));
  });
});
