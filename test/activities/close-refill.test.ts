/** Closing a batch in which failed members were replaced. */
import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import type { StopReason } from '../../src/model/workflow-safe/stop-reasons.js';
import type { Row } from '../../src/model/results/row.js';
import type { Bench } from '../fakes/activity-bench.js';
import { activityBench } from '../fakes/activity-bench.js';
import { author, entryOf, wholeTurn } from '../fakes/journal-lines.js';
import { BATCH, requestOf, sampleOf } from '../fakes/temporary-store.js';

const a = author('');
const CLOSE = { batch_id: BATCH, stopped: false };
const REFILL = { policy: 'refill', max_replacements: 20 };

interface Played {
  row: number;
  repeat: number;
  replaces?: number;
  /** null: it has no end. */
  end: StopReason | null;
  /** Sampled tokens of its one turn; 0: it never had a prompt. */
  tokens?: number;
}

async function write(
  { store }: Pick<Bench, 'store'>,
  { row, repeat, end, tokens = 1, replaces }: Played,
): Promise<void> {
  const claimant = { activity: 'x', ...(replaces !== undefined && { replaces }) };
  const journal = await store.claim({ batch_id: BATCH, row, repeat }, claimant);
  const ids = Array.from({ length: tokens }, (_, i) => i);
  const lines = [
    ...(tokens > 0 ? [a.start(), ...wholeTurn(a, { ids, token_ids: [], reward: row })] : []),
    ...(end === null ? [] : [a.end({ stop_reason: end })]),
  ];
  for (const line of lines) await journal.append(entryOf(line));
  await journal.commit();
}

async function batchOf(
  t: TestContext,
  {
    samples = 3,
    num_repeats = 2,
    completion = REFILL,
    played,
  }: { samples?: number; num_repeats?: number; completion?: object; played: Played[] },
): Promise<Bench> {
  const bench = await activityBench(t);
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ num_repeats, completion }),
    samples: Array.from({ length: samples }, (_, row) => sampleOf(`prompt ${row}`)),
  });
  // Rows come in input order, whatever the order of the files.
  for (const rollout of played.toReversed()) await write(bench, rollout);
  return bench;
}

async function rowsOf(file: string): Promise<Row[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
  return lines.map((line) => JSON.parse(line) as Row);
}

const places = (rows: Row[]): string[] =>
  rows.map(
    ({ row, repeat, replaces }) =>
      `${row}-${repeat}${replaces === undefined ? '' : ` for ${replaces}`}`,
  );

const PLAYED: Played[] = [
  { row: 0, repeat: 0, end: 'failed', tokens: 7 },
  { row: 0, repeat: 1, end: 'terminated', tokens: 10 },
  { row: 0, repeat: 2, replaces: 0, end: 'terminated', tokens: 14 },
  { row: 1, repeat: 0, end: 'terminated', tokens: 10 },
  { row: 1, repeat: 1, end: 'truncated', tokens: 10 },
  { row: 2, repeat: 0, end: 'timeout', tokens: 3 },
  { row: 2, repeat: 1, end: 'failed', tokens: 100 },
  { row: 2, repeat: 2, replaces: 0, end: 'failed', tokens: 0 },
  { row: 2, repeat: 10, replaces: 2, end: 'terminated', tokens: 16 },
];

describe('closing a batch whose failed members were replaced', () => {
  test('has a row of each member and of each replacement, in input order, and counts them all', async (t) => {
    const bench = await batchOf(t, { played: PLAYED });
    const { files, counts } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual(places(await rowsOf(files.rollouts)), [
      '0-1',
      '0-2 for 0',
      '1-0',
      '1-1',
      '2-10 for 2',
    ]);
    assert.deepEqual(places(await rowsOf(files.failures)), ['0-0', '2-0', '2-1', '2-2 for 0']);
    assert.deepEqual(counts, {
      requested: 9,
      completed: 5,
      failed: 3,
      timed_out: 1,
      stopped: 0,
      cancelled: 0,
    });
  });

  test('shows how long completed and replaced rollouts were, and how many were replaced', async (t) => {
    const bench = await batchOf(t, { played: PLAYED });
    const { metrics } = await bench.result('closeBatch', CLOSE);
    const lengths = Object.entries(metrics).filter(([name]) =>
      /^(completed|stopped|replaced)\//.test(name),
    );
    assert.deepEqual(Object.fromEntries(lengths), {
      'completed/mean_tokens': 12,
      'replaced/count': 3,
      // Nothing was played of 2-2, which was replaced, too.
      'replaced/mean_tokens': 5,
    });
  });

  test('computes groups from valid members alone, however many they are', async (t) => {
    const mended = PLAYED.with(0, { row: 0, repeat: 0, end: 'terminated', tokens: 7 });
    const bench = await batchOf(t, { played: mended });
    const { metrics, counts } = await bench.result('closeBatch', CLOSE);
    assert.equal(counts.completed, 6);
    assert.equal(metrics['group/count'], 3);
    // Rewards 0, 0, 0 of the first group, 1, 1 of the second, 2 of the third; one that was mended is not replaced.
    assert.deepEqual([metrics['pass@1'], metrics['pass@3']], [(0 + 1 + 2) / 3, 0]);
    assert.equal(metrics['replaced/count'], 2);
  });

  test('closes a replacement that never ended like any other', async (t) => {
    const played = PLAYED.with(2, { row: 0, repeat: 2, replaces: 0, end: null });
    const bench = await batchOf(t, { played });
    const { counts } = await bench.result('closeBatch', { ...CLOSE, stopped: true });
    assert.deepEqual([counts.requested, counts.stopped], [9, 1]);
  });

  test('under another policy ignores repeats beyond num_repeats', async (t) => {
    const bench = await batchOf(t, { played: PLAYED, completion: { policy: 'complete' } });
    const { counts, metrics } = await bench.result('closeBatch', CLOSE);
    assert.equal(counts.requested, 6);
    assert.ok(!('replaced/count' in metrics));
  });

  test('in which nothing was ever started has its rows all the same', async (t) => {
    const bench = await batchOf(t, { played: [] });
    const { counts } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual([counts.requested, counts.cancelled], [6, 6]);
  });
});

describe('a closing pass over replacements that dies', () => {
  /** Everything that is written, by an attempt that is let live. */
  async function undisturbed(t: TestContext): Promise<unknown> {
    const bench = await batchOf(t, { played: PLAYED });
    return await outcomeOf(bench, await bench.result('closeBatch', CLOSE));
  }

  async function outcomeOf(
    { root }: Bench,
    { files, counts }: { files: { rollouts: string; failures: string }; counts: unknown },
  ): Promise<unknown> {
    const texts = [await readFile(files.rollouts, 'utf8'), await readFile(files.failures, 'utf8')];
    return {
      counts,
      texts: texts.map((text) => text.replaceAll(root, '').replace(/"timing":{[^}]*}/g, '')),
    };
  }

  /** Its first attempt dies when it reads so many journals; `meanwhile` happens before the next. */
  async function killedAt(
    bench: Bench,
    { journal, meanwhile }: { journal: number; meanwhile?: () => Promise<void> },
  ) {
    const { store } = bench.dependencies;
    const read = store.readTrajectory.bind(store);
    const asked: string[] = [];
    store.readTrajectory = async (ref) => {
      asked.push(`${ref.row}-${ref.repeat}`);
      if (asked.length === journal) throw new Error('the machine is gone');
      return await read(ref);
    };
    const dying = await bench.run('closeBatch', { input: CLOSE });
    assert.ok(dying.error !== undefined);
    await meanwhile?.();
    const { result, error } = await bench.run('closeBatch', {
      input: CLOSE,
      number: 2,
      heartbeatDetails: dying.heartbeats.at(-1),
    });
    if (error !== undefined) throw error as Error;
    return { result: result!, asked };
  }

  test('anywhere is resumed where it was, and every row is written once', async (t) => {
    const expected = await undisturbed(t);
    for (let journal = 1; journal <= PLAYED.length; journal++) {
      const bench = await batchOf(t, { played: PLAYED });
      const { result, asked } = await killedAt(bench, { journal });
      assert.deepEqual(await outcomeOf(bench, result), expected, `killed at journal ${journal}`);
      assert.equal(asked.length, PLAYED.length + 1);
    }
  });

  test('has no row twice when the journal of a replacement appears that it has passed', async (t) => {
    const bench = await batchOf(t, { played: PLAYED });
    const zombie: Played = { row: 0, repeat: 3, replaces: 1, end: null };
    const { result, asked } = await killedAt(bench, {
      journal: 5,
      meanwhile: () => write(bench, zombie),
    });
    assert.deepEqual(asked, [
      '0-0',
      '0-1',
      '0-2',
      '1-0',
      '1-1',
      '1-1',
      '2-0',
      '2-1',
      '2-2',
      '2-10',
    ]);
    assert.equal(result.counts.requested, 9);
  });

  test('begins anew where the files of its predecessor are gone', async (t) => {
    const expected = await undisturbed(t);
    const bench = await batchOf(t, { played: PLAYED });
    const parts = path.join(bench.root, BATCH, 'parts');
    const { result } = await killedAt(bench, {
      journal: 5,
      meanwhile: () => rm(parts, { recursive: true }),
    });
    assert.deepEqual(await outcomeOf(bench, result), expected);
  });
});

describe('slices of a batch with replacements', () => {
  test('close their own rows with the replacements of these, and the batch joins them in order', async (t) => {
    const none = (row: number): Played[] =>
      [60, 61].map((repeat, replaces) => ({ row, repeat, replaces, end: 'terminated' }));
    const played = [0, 2, 4].flatMap(none);
    const bench = await batchOf(t, { samples: 5, num_repeats: 60, played });
    await bench.result('closeSlice', { ...CLOSE, first: 2, last: 3, stopped: true });
    const { counts, files } = await bench.result('closeBatch', CLOSE);
    assert.deepEqual([counts.requested, counts.completed], [306, 6]);
    assert.deepEqual([counts.stopped, counts.cancelled], [120, 180]);
    const expected = [0, 2, 4].flatMap((row) => [`${row}-60 for 0`, `${row}-61 for 1`]);
    assert.deepEqual(places(await rowsOf(files.rollouts)), expected);
  });
});
