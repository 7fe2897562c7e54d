import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { watchBatch } from '../../collection/follow/watch.js';
import type { Look } from '../../../src/client/batch-client.js';

const look = (closed: boolean): Look => ({ closed, progress: null, trouble: 'waiting' });

/** Looks as given, the last one again and again. */
function scripted(looks: Look[]): { look: () => Promise<Look> } {
  return {
    look: () => Promise.resolve((looks.length > 1 ? looks.shift() : looks[0]) ?? look(true)),
  };
}

test('a batch is watched until it has ended, and what ended last is written, too', async () => {
  const results = [1, 0, 0, 0, 2];
  let sweeps = 0;
  let closedAt = -1;
  const looks = [look(false), look(false), look(true)];
  const batch = {
    look: () => {
      const next = looks.shift() ?? look(true);
      if (next.closed) closedAt = sweeps;
      return Promise.resolve(next);
    },
  };
  const ended = await watchBatch({
    batch,
    lookedMs: () => 0,
    sweep: () => {
      sweeps += 1;
      return Promise.resolve(results.shift() ?? 0);
    },
    draw: () => undefined,
    signal: new AbortController().signal,
    lookEveryMs: 20,
  });
  assert.equal(ended, 'closed');
  assert.ok(sweeps > closedAt, 'a sweep after the end');
});

test('an interrupt ends it at once, with what ended so far written', async () => {
  const controller = new AbortController();
  let sweeps = 0;
  const watching = watchBatch({
    batch: scripted([look(false)]),
    lookedMs: () => 0,
    sweep: () => {
      sweeps += 1;
      if (sweeps === 1) controller.abort('SIGINT');
      return Promise.resolve(0);
    },
    draw: () => undefined,
    signal: controller.signal,
    lookEveryMs: 60_000,
  });
  assert.equal(await watching, 'aborted');
  assert.equal(sweeps, 2);
});

test('a sweep that fails is tried again, visibly, until what ended is written', async () => {
  const looks = [look(false), look(true)];
  const shown = new Set<string>();
  let failures = 3;
  let isWritten = false;
  const ended = await watchBatch({
    batch: scripted(looks),
    lookedMs: () => 0,
    sweep: () => {
      failures -= 1;
      if (failures >= 0) return Promise.reject(new Error('ENOSPC'));
      isWritten = true;
      return Promise.resolve(1);
    },
    draw: (notes) => {
      for (const note of notes) shown.add(note);
    },
    signal: new AbortController().signal,
    lookEveryMs: 20,
  });
  assert.equal(ended, 'closed');
  assert.ok(isWritten);
  assert.ok(shown.has('results cannot be written yet: ENOSPC'));
});

test('an interrupt does not wait for a disk', async () => {
  const watching = watchBatch({
    batch: scripted([look(true)]),
    lookedMs: () => 0,
    sweep: () => Promise.reject(new Error('EIO')),
    draw: () => undefined,
    signal: AbortSignal.timeout(300),
    lookEveryMs: 20,
  });
  assert.equal(await watching, 'aborted');
});

test('a sweep that takes long ends soon after an interrupt', async () => {
  const controller = new AbortController();
  const aborted: boolean[] = [];
  const watching = watchBatch({
    batch: scripted([look(false)]),
    lookedMs: () => 0,
    sweep: async (signal) => {
      if (aborted.length === 0) controller.abort('SIGINT');
      aborted.push(signal.aborted);
      if (!signal.aborted) await new Promise((resolve) => (signal.onabort = resolve));
      return 0;
    },
    draw: () => undefined,
    signal: controller.signal,
    lookEveryMs: 60_000,
  });
  assert.equal(await watching, 'aborted');
  assert.deepEqual(aborted, [true, false], 'the first was aborted, the last had some time');
});

test('a long look through the journals is followed by a longer pause, rows that take long to write are not', async () => {
  const sweepsWithin = async (second: { looked_ms: number; sweep_ms: number }): Promise<number> => {
    const controller = new AbortController();
    let sweeps = 0;
    const watching = watchBatch({
      batch: scripted([look(false)]),
      lookedMs: () => second.looked_ms,
      sweep: async () => {
        sweeps += 1;
        await sleep(second.sweep_ms);
        return 1;
      },
      draw: () => undefined,
      signal: controller.signal,
      lookEveryMs: 60_000,
    });
    await sleep(2000);
    controller.abort('SIGINT');
    await watching;
    return sweeps;
  };
  const [writing, looking] = await Promise.all([
    sweepsWithin({ looked_ms: 1, sweep_ms: 300 }),
    sweepsWithin({ looked_ms: 300, sweep_ms: 300 }),
  ]);
  assert.equal(looking, 2, 'one, and the last after the interrupt');
  assert.ok(writing > 2, `${writing} sweeps`);
});
