import assert from 'node:assert/strict';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { Journal, TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { planMemory } from '../../src/workers/memory.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { longTurn } from '../fakes/long-rollout.js';
import { temporaryStore } from '../fakes/temporary-store.js';

const BATCH = 'long';
const by = { activity: 'playTurns' };
const refOf = (row: number) => ({ batch_id: BATCH, row, repeat: 0 });
const spent_ms = ({ user, system }: NodeJS.CpuUsage): number => (user + system) / 1000;

/** A journal of one writer, written at once. */
async function write(
  root: string,
  { row, turns, tokens, chunk }: { row: number; turns: number; tokens: number; chunk: number },
): Promise<void> {
  const a = author('w');
  const file = path.join(root, BATCH, 'journals', `${row}-0.jsonl`);
  const entries = Array.from({ length: turns }, (_, turn) =>
    longTurn(turn, { tokens: tokens / turns, chunk }),
  );
  const lines = [a.claim(), a.start(), ...entries.flat()];
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(
    file,
    lines.map((line) => `${JSON.stringify({ ...line, writer: 'w', at: 1.5 })}\n`).join(''),
  );
}

/** The processor time of the longest turn of the event loop while this runs, and of all of it. */
async function loopTurns(run: () => Promise<unknown>): Promise<{ longest: number; total: number }> {
  const started = process.cpuUsage();
  let longest = 0;
  const state = { is_over: false };
  const running = run().finally(() => (state.is_over = true));
  let turn = started;
  do {
    await nextTurn();
    longest = Math.max(longest, spent_ms(process.cpuUsage(turn)));
    turn = process.cpuUsage();
  } while (!state.is_over);
  await running;
  return { longest, total: spent_ms(process.cpuUsage(started)) };
}

describe('64 rollouts of 32,000 tokens', () => {
  const ROWS = Array.from({ length: 64 }, (_, row) => row);

  test('that are folded at the same time hold the event loop up by a slice at a time', async (t) => {
    const { root, elsewhere } = await temporaryStore(t);
    for (const row of ROWS) await write(root, { row, turns: 4, tokens: 32_000, chunk: 8 });
    const store = elsewhere();
    const { longest, total } = await loopTurns(async () => {
      const read = await Promise.all(ROWS.map((row) => store.readTrajectory(refOf(row))));
      assert.ok(read.every(({ assistant_tokens }) => assistant_tokens === 32_000));
    });
    assert.ok(longest < total / 10, `${longest} of ${total} ms of processor time in one turn`);
  });

  test('are all kept folded in a worker of 1GiB, and read once', async (t) => {
    const { root } = await temporaryStore(t);
    for (const row of ROWS) await write(root, { row, turns: 4, tokens: 32_000, chunk: 64 });
    const plan = planMemory({ memory_bytes: 2 ** 30, max_generations: 256, queues: 1 });
    const store = createFileStore({ root, max_cached_bytes: plan.cached_fold_bytes });
    const playAll = () => eachTurn(store, ROWS);
    const cold = await loopTurns(playAll);
    const warm = await loopTurns(playAll);
    assert.ok(warm.total < cold.total / 2, `${warm.total} ms, cold ${cold.total} ms`);
  });
});

async function eachTurn(store: TrajectoryStore, rows: readonly number[]): Promise<void> {
  for (const row of rows) {
    const journal = await store.claim(refOf(row), by);
    assert.equal(journal.trajectory.assistant_tokens, 32_000);
    await journal.commit();
  }
}

describe('what a fold is counted as', () => {
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  /** What earlier tests left is released over several turns of the loop, with pauses in which nothing is. */
  const heap = async (): Promise<number> => {
    let [least, quiet] = [Infinity, 0];
    for (let turn = 0; turn < 200 && quiet < 20; turn++) {
      collect();
      await nextTurn();
      const now = process.memoryUsage().heapUsed;
      quiet = least - now < 1000 ? quiet + 1 : 0;
      least = Math.min(least, now);
    }
    return least;
  };

  for (const [turns, tokens] of [
    [1, 1000],
    [4, 4000],
    [1, 32_000],
    [8, 32_000],
  ] as const) {
    test(`is at least what it takes, and at most twice that: ${tokens} tokens in ${turns} turns`, async (t) => {
      const { root, elsewhere } = await temporaryStore(t);
      const rows = Array.from({ length: 32 }, (_, row) => row);
      for (const row of rows) await write(root, { row, turns, tokens, chunk: 64 });
      const store = elsewhere();
      // One-time costs of reading do not belong to a fold.
      for (const row of rows) await store.readTrajectory(refOf(row));
      const claimed: Journal[] = [await store.claim(refOf(0), by)];
      const before = await heap();
      for (const row of rows.slice(1)) claimed.push(await store.claim(refOf(row), by));
      const taken = ((await heap()) - before) / (rows.length - 1);
      const counted = claimed[0]!.takenBytes();
      for (const journal of claimed) await journal.release();
      assert.ok(counted > 0.9 * taken && counted < 2.2 * taken, `${counted}, takes ${taken}`);
    });
  }

  test('grows with what is appended, as it does when that is read', async (t) => {
    const { store, elsewhere } = await temporaryStore(t);
    const journal = await store.claim(refOf(0), by);
    await journal.append(entryOf(author('x').start()));
    for (const entry of longTurn(0, { tokens: 640 })) await journal.append(entry);
    const written = journal.takenBytes();
    await journal.commit();
    const read = await elsewhere().claim(refOf(0), by);
    assert.ok(Math.abs(read.takenBytes() - written) < 64, `${read.takenBytes()}, was ${written}`);
    await read.release();
  });
});
