import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchHandle } from '../../src/client/batch-client.js';
import { createScreen } from '../../src/client/screen.js';
import { watchBatch } from '../../src/client/watch.js';

const unexpected = (): never => {
  throw new Error('not expected to be called');
};

const said = 'Temporal no longer knows batch b';
const FORGOTTEN: BatchHandle = {
  look: () => Promise.resolve({ closed: true, progress: null, trouble: said }),
  outcome: () => Promise.resolve({ failure: said, forgotten: true }),
};

async function linesOf(batch: BatchHandle, whyForgotten: () => Promise<string>): Promise<string[]> {
  let written = '';
  const terminal = {
    write: (text: string) => (written += text),
    on: unexpected,
    off: unexpected,
  };
  const { signal } = new AbortController();
  await watchBatch({
    batchId: 'b',
    batch,
    screen: createScreen(terminal, {}),
    signal,
    whyForgotten,
  });
  return written.trimEnd().split('\n');
}

test('of a batch that Temporal loses while it is watched the last line says what is left', async () => {
  const lines = await linesOf(FORGOTTEN, () => Promise.resolve('its journals are in results'));
  assert.equal(lines.at(-1), 'its journals are in results');
});

test('a batch that failed has not been forgotten', async () => {
  const failed: BatchHandle = {
    ...FORGOTTEN,
    outcome: () => Promise.resolve({ failure: 'TooFewValid' }),
  };
  const lines = await linesOf(failed, unexpected);
  assert.equal(lines.at(-1), 'Batch b failed: TooFewValid');
});
