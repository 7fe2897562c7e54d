import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BatchHandle } from '../../src/client/batch-client.js';
import { createScreen } from '../../src/client/screen.js';
import type { WatchOptions } from '../../src/client/progress.js';
import { watchBatch } from '../../src/client/progress.js';

const unexpected = (): never => {
  throw new Error('not expected to be called');
};

const said = 'Temporal no longer knows batch b';
const FORGOTTEN: BatchHandle = {
  look: () => Promise.resolve({ closed: true, progress: null, trouble: said }),
  outcome: () => Promise.resolve({ failure: said, forgotten: true }),
};

async function linesOf(
  batch: BatchHandle,
  why: Required<Pick<WatchOptions, 'whyForgotten'>> & Pick<WatchOptions, 'whySilent'>,
): Promise<string[]> {
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
    intervalMs: 20,
    plainEveryMs: 0,
    ...why,
  });
  return written.trimEnd().split('\n');
}

test('of a batch that Temporal loses while it is watched the last line says what is left', async () => {
  const lines = await linesOf(FORGOTTEN, {
    whyForgotten: () => Promise.resolve('its journals are in results'),
  });
  assert.equal(lines.at(-1), 'its journals are in results');
});

test('a batch that failed has not been forgotten', async () => {
  const failed: BatchHandle = {
    ...FORGOTTEN,
    outcome: () => Promise.resolve({ failure: 'TooFewValid' }),
  };
  const lines = await linesOf(failed, { whyForgotten: unexpected });
  assert.equal(lines.at(-1), 'Batch b failed: TooFewValid');
});

test('a batch that nobody answers for is shown with what this machine knows of it, until it is answered for', async () => {
  const looks = [
    { closed: false, progress: null, trouble: 'waiting for the Temporal server at host:7233' },
    { closed: false, progress: null, trouble: null },
  ];
  const silent: BatchHandle = {
    ...FORGOTTEN,
    look: () => Promise.resolve(looks.shift() ?? { closed: true, progress: null, trouble: said }),
  };
  let asked = 0;
  const lines = await linesOf(silent, {
    whyForgotten: () => Promise.resolve('left'),
    whySilent: () => {
      asked += 1;
      return Promise.resolve('the disk of /x is full');
    },
  });
  assert.match(
    lines[0] ?? '',
    /the disk of \/x is full: waiting for the Temporal server at host:7233$/,
  );
  assert.equal(asked, 2, 'not for a batch that has ended');
});
