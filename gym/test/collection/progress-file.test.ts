import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { createProgressFile } from '../../collection/follow/progress-file.js';
import { createTally } from '../../collection/follow/tally.js';
import { temporaryFolder } from '../../../test/dev/fakes.js';

const ROW = { key: { task: 3, rollout: 1 }, agent: 'ag', attempt_index: 0, row: {} };

function viewAt(elapsedS: number) {
  const { tally } = createTally({ rows: [ROW], cached: 2 });
  const running = [{ row: ROW, since: 90, attempt: 1, waiting: null }];
  return { title: 'out.jsonl', tally, running, elapsedS, nowS: 100, notes: ['waiting for ag'] };
}

test('a program reads how far a collection is, and how it ended', async (t) => {
  const file = path.join(await temporaryFolder(t), 'out_progress.json');
  const clock = { ms: 0 };
  const progress = createProgressFile({
    file,
    batch_id: 'b',
    say: (text) => {
      throw new Error(text);
    },
    now: () => clock.ms,
  });
  await progress.close(viewAt(5), 'closed');
  const read = JSON.parse(await readFile(file, 'utf8')) as Record<string, unknown>;
  assert.deepEqual(
    [read['batch_id'], read['ended'], read['total'], read['done'], read['cached'], read['waiting']],
    ['b', 'closed', 1, 0, 2, ['waiting for ag']],
  );
  assert.deepEqual(read['longest'], [{ row: '3-1', agent: 'ag', attempt: 1, for_s: 10 }]);
});

test('a progress file that cannot be written is said once, and costs nothing else', async (t) => {
  const file = path.join(await temporaryFolder(t), 'no', 'folder', 'out_progress.json');
  const said: string[] = [];
  const progress = createProgressFile({ file, batch_id: 'b', say: (text) => said.push(text) });
  progress.write(viewAt(1));
  await progress.close(viewAt(2), 'aborted');
  assert.equal(said.length, 1);
  assert.match(said[0] ?? '', /out_progress\.json cannot be written/);
});
