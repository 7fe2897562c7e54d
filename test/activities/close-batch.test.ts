import assert from 'node:assert/strict';
import { readFile, readdir } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { BatchResult } from '../../src/activities/contract.js';
import type { Dependencies } from '../../src/activities/dependencies.js';
import type { GroupLine } from '../../src/model/results/group-table.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import type { Row } from '../../src/model/results/row.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';
import { plainly } from '../fakes/plainly.js';

const a = author('');
const CLOSE = { batch_id: BATCH, stopped: false };

/** A batch of rollouts that ended so, row by row and repeat by repeat; null: its workflow was terminated; undefined: it never started. */
async function batchOf(
  t: TestContext,
  {
    ends,
    request = {},
    endOf,
  }: {
    ends: (StopReason | null | undefined)[][];
    request?: Record<string, unknown>;
    endOf?: Dependencies['endOf'];
  },
): Promise<Bench> {
  const bench = await activityBench(t, endOf && { endOf });
  const samples = ends.map((_, row) => sampleOf(`prompt ${row} é`, { column: row }));
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ num_repeats: ends[0]?.length, ...request }),
    samples,
  });
  for (const [row, repeats] of ends.entries())
    for (const [repeat, end] of repeats.entries()) {
      if (end === undefined) continue;
      const journal = await bench.store.claim({ batch_id: BATCH, row, repeat }, { activity: 'x' });
      const lines: JournalLine[] = [
        a.start(),
        ...wholeTurn(a, { reward: row, terminated: end === 'terminated' }),
      ];
      if (end !== null) lines.push(a.end({ stop_reason: end }));
      for (const line of lines) await journal.append(entryOf(line));
      await journal.commit();
    }
  return bench;
}

async function rowsOf(file: string): Promise<Row[]> {
  const text = await readFile(file, 'utf8');
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Row);
}

const places = (rows: Row[]): string[] => rows.map(({ row, repeat }) => `${row}-${repeat}`);

describe('closing a batch', () => {
  const ends = [
    ['terminated', 'failed', 'terminated'],
    ['max_turns', undefined, 'timeout'],
    [null, 'truncated', 'stopped'],
    ['cancelled', 'terminated', 'terminated'],
  ] satisfies (StopReason | null | undefined)[][];

  test('puts every rollout into one of two files, once, in input order', async (t) => {
    const bench = await batchOf(t, { ends });
    const { files } = await bench.result('closeBatch', CLOSE);
    const [valid, failed] = [await rowsOf(files.rollouts), await rowsOf(files.failures)];
    assert.deepEqual(places(valid), ['0-0', '0-2', '1-0', '2-1', '3-1', '3-2']);
    assert.deepEqual(places(failed), ['0-1', '1-1', '1-2', '2-0', '2-2', '3-0']);
    assert.ok(valid.every((row) => !('failure' in row)) && failed.every((row) => 'failure' in row));
    assert.ok([...valid, ...failed].every((row) => row['column'] === row.row));
  });

  test('counts what the files hold, and the counts add up', async (t) => {
    const bench = await batchOf(t, { ends });
    const { counts } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual(counts, {
      requested: 12,
      completed: 6,
      failed: 1,
      timed_out: 1,
      stopped: 1,
      cancelled: 3,
    });
  });

  test('says which versions sampled its rows, and how many the one that was expected', async (t) => {
    const bench = await batchOf(t, {
      ends: [[undefined], [undefined], [undefined]],
      request: { policy_version: '36' },
    });
    for (const [row, versions] of [
      ['36', '36'],
      ['36', '38'],
      ['37', null],
    ].entries()) {
      const journal = await bench.store.claim(
        { batch_id: BATCH, row, repeat: 0 },
        { activity: 'x' },
      );
      const chunks = versions.map((policy_version, i) =>
        a.chunk({ offset: i, token_ids: [i + 1], policy_version }),
      );
      const turn = [
        ...chunks,
        a.generation({ token_count: 2 }),
        a.observation({ terminated: true }),
      ];
      for (const line of [a.start(), ...turn, a.end()]) await journal.append(entryOf(line));
      await journal.commit();
    }
    const { metrics } = await bench.result('closeBatch', CLOSE);
    const ofVersions = Object.entries(metrics).filter(([name]) => name.startsWith('versions/'));
    assert.deepEqual(Object.fromEntries(ofVersions), {
      'versions/min': 36,
      'versions/max': 38,
      'versions/one_rate': 1 / 3,
      'versions/expected_rate': 1 / 3,
      'versions/unknown': 1,
    });
  });

  test('notes what is true of all its rows', async (t) => {
    const bench = await batchOf(t, { ends: [['truncated', 'truncated', 'failed']] });
    const { notes, files } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual(notes, [
      'all 2 valid rollouts are truncated: by max_seq_len 4096, a limit that was changed, or their environment',
      'all 2 valid rollouts have the reward 0',
      'in all 2 valid rollouts the policy says the same text',
    ]);
    const written = JSON.parse(await readFile(files.metrics, 'utf8')) as BatchResult;
    assert.deepEqual(written.notes, notes);
  });

  test('after a stop closes what never ended as stopped', async (t) => {
    const bench = await batchOf(t, { ends });
    const { counts, files } = await bench.result('closeBatch', { ...CLOSE, stopped: true });
    assert.deepEqual([counts.stopped, counts.cancelled], [3, 1]);
    const failed = await rowsOf(files.failures);
    const byPlace = new Map(failed.map((row) => [`${row.row}-${row.repeat}`, row.failure?.type]));
    assert.deepEqual(
      ['1-1', '2-0', '3-0'].map((place) => byPlace.get(place)),
      ['Stopped', 'Stopped', 'Cancelled'],
    );
  });

  test('names a journal that has lost the end of a workflow that ended, and fails the others as their workflows did', async (t) => {
    const asked: string[] = [];
    const ended = {
      '0-0': 'completed',
      '0-1': { type: 'GenerationRejected', message: 'no such model' },
      '0-2': { type: 'TimedOut', message: 'rollout_timeout passed' },
    } as const;
    const bench = await batchOf(t, {
      ends: [[undefined, null, undefined, undefined, 'terminated']],
      endOf: (id) => {
        asked.push(id);
        if (id === 'batch/0-3') return Promise.reject(new Error('no server'));
        return Promise.resolve(ended[id.slice('batch/'.length) as keyof typeof ended]);
      },
    });
    const { counts, files } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual(asked, ['batch/0-0', 'batch/0-1', 'batch/0-2', 'batch/0-3']);
    const { completed, failed, timed_out, cancelled } = counts;
    assert.deepEqual(
      { completed, failed, timed_out, cancelled },
      { completed: 1, failed: 2, timed_out: 1, cancelled: 1 },
    );
    const failures = (await rowsOf(files.failures)).map(({ failure }) => failure);
    assert.deepEqual(
      failures.map((one) => one?.type),
      ['JournalLost', 'GenerationRejected', 'TimedOut', 'Cancelled'],
    );
    assert.match(
      failures[0]?.message ?? '',
      /^the journal of batch\/0-0 has lost its end: the store was restored/,
    );
    assert.equal(failures[1]?.message, 'no such model');
  });

  test('after a stop asks no server about rollouts that never started', async (t) => {
    const endOf = (): never => assert.fail('nobody is asked');
    const bench = await batchOf(t, { ends: [[undefined, 'terminated']], endOf });
    const { counts } = await bench.result('closeBatch', { ...CLOSE, stopped: true });
    assert.equal(counts.stopped, 1);
  });

  test('takes turns that have reached an end for it, though the end was never written', async (t) => {
    const bench = await batchOf(t, { ends: [[undefined, undefined, undefined]] });
    for (const [repeat, observed] of [{ terminated: true }, { truncated: true }, {}].entries()) {
      const journal = await bench.store.claim(
        { batch_id: BATCH, row: 0, repeat },
        { activity: 'x' },
      );
      for (const line of [a.start(), ...wholeTurn(a, observed)])
        await journal.append(entryOf(line));
      await journal.commit();
    }
    const { files } = await bench.result('closeBatch', CLOSE);
    const rows = await rowsOf(files.rollouts);
    assert.deepEqual(
      rows.map(({ stop_reason }) => stop_reason),
      ['terminated', 'truncated'],
    );
    assert.ok(rows.every(({ timing, failure }) => timing.wall_s >= 0 && failure === undefined));
    assert.deepEqual(places(await rowsOf(files.failures)), ['0-2']);
  });

  test('writes its result as metrics.json, last, and returns it', async (t) => {
    const bench = await batchOf(t, { ends, request: { metadata: { step: 17 } } });
    const result = await bench.result('closeBatch', CLOSE);
    const written = JSON.parse(await readFile(result.files.metrics, 'utf8')) as BatchResult;
    assert.deepEqual(written, plainly(result));
    assert.deepEqual(
      [written.schema_version, written.batch_id, written.metadata],
      [1, BATCH, { step: 17 }],
    );
    assert.equal(result.metrics['group/count'], 4);
    assert.equal(result.metrics['total_turns'], 6);
    assert.ok(Object.values(result.files).every((file) => path.isAbsolute(file)));
    assert.ok(!(await readdir(path.join(bench.root, BATCH))).includes('parts'));
  });

  test('writes a line of groups.jsonl for each sample', async (t) => {
    const bench = await batchOf(t, { ends });
    const { files, metrics } = await bench.result('closeBatch', CLOSE);
    const lines = (await rowsOf(files.groups)) as unknown as GroupLine[];
    const seen = lines.map(({ row, rollouts, valid, failures }) => [
      row,
      rollouts,
      valid,
      failures,
    ]);
    assert.deepEqual(seen, [
      [0, 3, 2, { Failed: 1 }],
      [1, 3, 1, { Cancelled: 1, TimedOut: 1 }],
      [2, 3, 1, { Cancelled: 1, Stopped: 1 }],
      [3, 3, 2, { Cancelled: 1 }],
    ]);
    assert.deepEqual(
      lines.map((line) => line['total_reward/mean']),
      [0, 1, 2, 3],
    );
    assert.equal(metrics['pass@1'], (0 + 1 + 2 + 3) / 4);
  });

  test('without a valid rollout has metrics of what went wrong, and all the same its files', async (t) => {
    const bench = await batchOf(t, { ends: [['failed', undefined]] });
    const { metrics, counts, files } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual(metrics, { 'attempts/mean': 1, 'attempts/max': 1 });
    assert.deepEqual([counts.requested, counts.failed, counts.cancelled], [2, 1, 1]);
    assert.deepEqual(await rowsOf(files.rollouts), []);
  });

  test('twice gives the same files and the same result', async (t) => {
    const bench = await batchOf(t, { ends });
    const first = await bench.result('closeBatch', CLOSE);
    const before = await readFile(first.files.rollouts, 'utf8');
    assert.deepEqual(await bench.result('closeBatch', CLOSE), first);
    assert.equal(await readFile(first.files.rollouts, 'utf8'), before);
  });

  test('of a batch that is not there is a StoreFault that names it', async (t) => {
    const bench = await activityBench(t);
    const { type, message, nonRetryable } = await bench.failure('closeBatch', CLOSE);
    assert.deepEqual([type, nonRetryable], ['StoreFault', false]);
    assert.match(message, /no batch batch$/);
  });

  test('computes natural_termination_rate as the semantics say', async (t) => {
    const both = [['terminated', 'truncated']] satisfies StopReason[][];
    const rate = async (semantics: string) => {
      const bench = await batchOf(t, { ends: both, request: { semantics } });
      return (await bench.result('closeBatch', CLOSE)).metrics['natural_termination_rate'];
    };
    assert.equal(await rate('standard'), 0.5);
    assert.equal(await rate('nemo-rl-async'), 0.5);
  });
});

describe('closing a large batch', () => {
  const large = { num_repeats: 60 };
  const groups = 5;
  const none = Array.from({ length: groups }, () => Array<undefined>(60).fill(undefined));
  const slices = [
    [0, 1],
    [2, 3],
    [4, 4],
  ].map(([first = 0, last = 0]) => ({ ...CLOSE, first, last }));

  test('joins the parts that its slices closed, and closes those that none did', async (t) => {
    const bench = await batchOf(t, { ends: none, request: large });
    for (const slice of [slices[2], slices[0]]) {
      assert.ok(slice !== undefined);
      await bench.result('closeSlice', { ...slice, stopped: true });
      await bench.result('closeSlice', slice);
    }
    const { counts, files } = await bench.result('closeBatch', CLOSE);
    const total = groups * 60;
    assert.deepEqual([counts.requested, counts.stopped, counts.cancelled], [total, 180, 120]);
    const expected = none.flatMap((repeats, row) => repeats.map((_, repeat) => `${row}-${repeat}`));
    assert.deepEqual(places(await rowsOf(files.failures)), expected);
  });

  test('says in its heartbeat where it is, and the next attempt continues from there', async (t) => {
    const bench = await batchOf(t, { ends: none, request: large });
    const { store } = bench.dependencies;
    const read = store.readTrajectory.bind(store);
    let folded = 0;
    store.readTrajectory = async (ref) => {
      folded += 1;
      if (folded === 200) throw new Error('the machine is gone');
      return await read(ref);
    };
    const dying = await bench.run('closeBatch', { input: CLOSE });
    assert.ok(dying.error !== undefined);
    const { result } = await bench.run('closeBatch', {
      input: CLOSE,
      number: 2,
      heartbeatDetails: dying.heartbeats.at(-1),
    });
    assert.equal(folded, 200 + (groups * 60 - 199));
    assert.equal(result?.counts.cancelled, groups * 60);
    assert.equal(new Set(places(await rowsOf(result.files.failures))).size, groups * 60);
    assert.ok(JSON.stringify(dying.heartbeats.at(-1)).length < 500);
  });

  test('stops where it is when it is cancelled', async (t) => {
    const bench = await batchOf(t, { ends: none, request: large });
    const { error } = await bench.run('closeBatch', {
      input: CLOSE,
      cancelling: (cancel) => {
        cancel();
      },
    });
    assert.ok(error instanceof Error && error.name === 'CancelledFailure');
  });
});
