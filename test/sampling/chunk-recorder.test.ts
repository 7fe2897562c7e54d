import assert from 'node:assert/strict';
import { describe, mock, test } from 'node:test';
import type { TestContext } from 'node:test';
import { recordChunks } from '../../src/sampling/chunk-recorder.js';
import type { Delta } from '../../src/generation/generation-service.js';
import type { Entry } from '../../src/model/journal.js';
import type { Tape } from '../../src/sampling/call.js';

type Chunk = Extract<Entry, { kind: 'chunk' }>;

const FACTS = {
  turn: 3,
  replica: 'http://replica/v1',
  request_id: 'request',
  policy_version: 'v1',
};
const deltaOf = (count: number, from = 0): Delta => ({
  token_ids: Array.from({ length: count }, (_, i) => from + i),
  logprobs: Array.from({ length: count }, (_, i) => -(from + i)),
  text: 'x'.repeat(count),
});

/** A recorder whose journal keeps what is appended, at the pace of `append`. */
function recording(
  t: TestContext,
  append: (entry: Entry) => Promise<void> = () => Promise.resolve(),
) {
  mock.timers.enable({ apis: ['setTimeout'] });
  t.after(() => {
    mock.timers.reset();
  });
  const chunks: Chunk[] = [];
  const failures: unknown[] = [];
  const tape: Tape = {
    open: () => assert.fail('a recorder of new tokens does not look back'),
    append: async (entry) => {
      await append(entry);
      assert.ok(entry.kind === 'chunk');
      chunks.push(entry);
    },
    stored: () => assert.fail('a recorder shows nothing to anybody'),
  };
  const onFailure = (error: unknown): void => void failures.push(error);
  return {
    chunks,
    failures,
    recorder: recordChunks(tape, { facts: FACTS, offset: 0, onFailure }),
  };
}

/** Lets promises settle without moving timers. */
const settle = async (): Promise<void> => {
  for (let i = 0; i < 10; i++) await Promise.resolve();
};

describe('tokens that stream in', () => {
  test('are written when 64 wait', async (t) => {
    const { recorder, chunks } = recording(t);
    for (let i = 0; i < 63; i++) recorder.add(deltaOf(1, i));
    await settle();
    assert.deepEqual(chunks, []);
    recorder.add(deltaOf(1, 63));
    await settle();
    const { token_ids, logprobs, text } = deltaOf(64);
    assert.deepEqual(chunks, [{ kind: 'chunk', ...FACTS, offset: 0, token_ids, logprobs, text }]);
  });

  test('are written 250 ms after the first of them at the latest, however slowly they come', async (t) => {
    const { recorder, chunks } = recording(t);
    recorder.add(deltaOf(1));
    for (let waited = 0; waited < 240; waited += 40) {
      mock.timers.tick(40);
      recorder.add(deltaOf(1));
    }
    mock.timers.tick(10);
    await settle();
    assert.ok(chunks.length >= 1, 'the first token waits for more than 250 ms');
  });

  test('are not written one by one', async (t) => {
    const { recorder, chunks } = recording(t);
    for (let i = 0; i < 20; i++) {
      recorder.add(deltaOf(1));
      mock.timers.tick(5);
      await settle();
    }
    assert.deepEqual(chunks, []);
  });

  test('are appended in order, whatever the sizes', async (t) => {
    const { recorder, chunks } = recording(t);
    for (const [count, from] of [
      [70, 0],
      [10, 70],
      [54, 80],
      [1, 134],
    ] as const) {
      recorder.add(deltaOf(count, from));
    }
    await recorder.flush();
    assert.deepEqual(
      chunks.map(({ offset, token_ids }) => [offset, token_ids.length]),
      [
        [0, 70],
        [70, 64],
        [134, 1],
      ],
    );
    assert.deepEqual(
      chunks.flatMap(({ token_ids }) => token_ids),
      deltaOf(135).token_ids,
    );
  });

  test('keep their order while a write is slow', async (t) => {
    let first = true;
    let open = (): void => undefined;
    const gate = new Promise<void>((resolve) => (open = resolve));
    const slowFirst = async (): Promise<void> => {
      if (!first) return;
      first = false;
      await gate;
    };
    const { recorder, chunks } = recording(t, slowFirst);
    recorder.add(deltaOf(64, 0));
    recorder.add(deltaOf(64, 64));
    const flushed = recorder.flush();
    await settle();
    assert.deepEqual(chunks, []);
    open();
    await flushed;
    assert.deepEqual(
      chunks.map(({ offset }) => offset),
      [0, 64],
    );
  });
});

describe('text', () => {
  test('that comes without tokens is written, too', async (t) => {
    const { recorder, chunks } = recording(t);
    recorder.add({ token_ids: [], logprobs: [], text: 'held back' });
    await recorder.flush();
    assert.deepEqual(
      chunks.map(({ offset, token_ids, text }) => [offset, token_ids.length, text]),
      [[0, 0, 'held back']],
    );
  });
});

describe('flush', () => {
  test('writes what waits, once', async (t) => {
    const { recorder, chunks } = recording(t);
    recorder.add(deltaOf(3));
    await recorder.flush();
    await recorder.flush();
    mock.timers.tick(1000);
    await settle();
    assert.equal(chunks.length, 1);
  });

  test('of nothing writes nothing', async (t) => {
    const { recorder, chunks } = recording(t);
    await recorder.flush();
    assert.deepEqual(chunks, []);
  });
});

describe('a write that fails', () => {
  test('is reported at once and thrown by flush; later chunks are not written', async (t) => {
    const full = new Error('the disk is full');
    const { recorder, chunks, failures } = recording(t, () => Promise.reject(full));
    recorder.add(deltaOf(64));
    await settle();
    assert.deepEqual(failures[0], full);
    recorder.add(deltaOf(64, 64));
    await assert.rejects(recorder.flush(), full);
    assert.deepEqual(chunks, []);
  });
});
