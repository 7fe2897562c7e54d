import assert from 'node:assert/strict';
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Playing } from '../../src/activities/playing.js';
import { withLease } from '../../src/activities/lease.js';
import { playFromJournal } from '../../src/activities/play-from-journal.js';
import { createAllowance } from '../../src/platform/waits/allowance.js';
import { attemptOf } from '../fakes/attempt.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { activityBench, AT } from '../fakes/activity-bench.js';
import { longTurn } from '../fakes/long-rollout.js';
import { REF } from '../fakes/temporary-store.js';

/** Room for one fold of a rollout of 4,000 tokens. */
const ROOM = 200_000;
const never = new AbortController().signal;

/** Turns that are played until they are let go, on journals of so many tokens. */
async function playing(t: TestContext) {
  const folds = createAllowance(ROOM);
  const bench = await activityBench(t, { folds });
  const started: number[] = [];
  const ends = new Map<number, () => void>();
  const grow = async ({ journal, ref: { row } }: Playing, tokens: number): Promise<void> => {
    started.push(row);
    if (journal.trajectory.start === null) await journal.append(entryOf(author('x').start()));
    for (const entry of longTurn(journal.trajectory.observations.length, { tokens }))
      await journal.append(entry);
    await new Promise<void>((resolve) => ends.set(row, resolve));
  };
  const play = (row: number, { grows = 0, signal = never } = {}) =>
    withLease(
      { ...bench.dependencies, attempt: attemptOf({ signal }), ref: { ...REF, row } },
      (lease) =>
        playFromJournal(lease, {
          ...bench.dependencies,
          by: { activity: 'playTurns' },
          play: (one) => grow(one, grows),
        }),
    );
  const until = async (count: number): Promise<void> => {
    while (started.length < count || !ends.has(started.at(-1)!)) await nextTurn();
  };
  const soon = async (): Promise<void> => {
    for (let i = 0; i < 50; i++) await nextTurn();
  };
  return { bench, play, started, until, soon, end: (row: number) => ends.get(row)?.() };
}

describe('turns of long contexts', () => {
  test('wait until the folds of those before them leave room', async (t) => {
    const { play, started, until, soon, end } = await playing(t);
    const first = play(0, { grows: 8000 });
    await until(1);
    const second = play(1);
    await soon();
    assert.deepEqual(started, [0]);
    end(0);
    await first;
    await until(2);
    end(1);
    await second;
    assert.deepEqual(started, [0, 1]);
  });

  test('of short ones play at the same time', async (t) => {
    const { play, until, end } = await playing(t);
    const all = [0, 1, 2, 3].map((row) => play(row));
    await until(4);
    for (const row of [0, 1, 2, 3]) end(row);
    await Promise.all(all);
  });

  test('that wait are cancelled where they wait', async (t) => {
    const { play, until, end } = await playing(t);
    const first = play(0, { grows: 8000 });
    await until(1);
    const controller = new AbortController();
    const second = play(1, { signal: controller.signal });
    controller.abort(new Error('cancelled'));
    await assert.rejects(second, /cancelled/);
    end(0);
    await first;
  });

  test('hold no end of another rollout up', async (t) => {
    const { bench, play, until, end } = await playing(t);
    await bench.started();
    const first = play(1, { grows: 8000 });
    await until(1);
    const { batch_id, row, repeat } = AT;
    const rollout = { batch_id, row, repeat };
    await bench.result('finishRollout', { rollout, stop_reason: 'stopped', failure: null });
    end(1);
    await first;
  });
});
