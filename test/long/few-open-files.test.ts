/** A hard limit of 256 open files, the default of some systems: the worker plays less at once, and does not break. */
import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { after, before, describe, test } from 'node:test';
import { startBatch } from '../../lab/bed/batch.js';
import { puzzleRequest } from '../../lab/bed/puzzle-request.js';
import { assertComplete } from '../harness/row-comparison.js';
import type { Testbed } from '../harness/testbed.js';
import { startTestbed } from '../harness/testbed.js';

const SIZE = { samples: 64, repeats: 4 };
const FILES = 256;

const skip = process.platform === 'linux' ? false : 'open files are counted in /proc';

describe('a worker that may open 256 files', { skip }, () => {
  let bed: Testbed;

  before(async () => {
    bed = await startTestbed('few-files');
  });
  after(() => (bed as Testbed | undefined)?.end());

  test('plays 256 rollouts at once, as many as fit at a time, and says so', async () => {
    const worker = await bed.startWorker({
      task_queue: 'few',
      generation: await bed.simulate({ default: { tokens_per_second: 50 } }),
      open_files: FILES,
    });
    let most = 0;
    let exited = false;
    void worker.exited.then(() => (exited = true));
    const counting = setInterval(() => {
      readdir(`/proc/${worker.pid}/fd`).then(
        ({ length }) => (most = Math.max(most, length)),
        () => undefined,
      );
    }, 50);
    try {
      const request = puzzleRequest({ samples: SIZE.samples, num_repeats: SIZE.repeats });
      const batch = await startBatch(bed.batch('few-files', 'few'), {
        ...request,
        max_in_flight: 256,
      });
      assertComplete(await batch.outcome(), SIZE);
    } finally {
      clearInterval(counting);
    }
    const log = await worker.log();
    assert.match(log, /a process may open 256 files and connections: at most \d+ rollouts/);
    assert.equal(exited, false, log.slice(-2000));
    assert.ok(most > 100 && most < FILES, `${most} files were open`);
    console.log(`at most ${most} open files`);
  });
});
