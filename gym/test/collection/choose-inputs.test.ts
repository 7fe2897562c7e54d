import assert from 'node:assert/strict';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { materializedLine } from '../../rows/materialize.js';
import { parseJson } from '../../json/exact.js';
import { readRows, writeInput } from '../harness/collection-files.js';
import { RESUME, bed, good } from './choose-bed.js';

describe('a collection that is resumed', () => {
  test('takes the row of a torn materialized line from its input, and is refused where that is gone', async (t) => {
    const { go, files } = await bed(t);
    await go();
    const text = await readFile(files.materialized, 'utf8');
    await writeFile(files.materialized, text.slice(0, -20));
    await writeFile(files.main, '');
    await rm(files.state);
    await assert.rejects(
      go({ ...RESUME, input_jsonl_fpath: 'gone.jsonl' }),
      /A row of .*_materialized_inputs\.jsonl is lost with its line, and gone\.jsonl is gone:\n {2}materialized inputs, line 3: torn/,
    );
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: true });
    assert.equal(await readFile(files.materialized, 'utf8'), text);
  });

  test('is refused where its inputs changed, by what changed; and continues without an input file', async (t) => {
    const { go, at, files } = await bed(t);
    await go();
    await writeInput(at('in.jsonl'), 4);
    await assert.rejects(
      go(RESUME),
      /The inputs have changed since this collection began.*row 3-0: is new/s,
    );
    await assert.rejects(
      go({ ...RESUME, input_jsonl_fpath: 'in.jsonl', num_repeats: 2 }),
      /row 0-1 and 4 more: are new/,
    );
    const first = (await readFile(files.materialized, 'utf8')).split('\n')[0] ?? '';
    assert.equal(
      first,
      materializedLine({
        key: { task: 0, rollout: 0 },
        agent: 'ag',
        attempt_index: 0,
        row: parseJson(first) as never,
      }),
    );
    assert.deepEqual(await go({ ...RESUME, input_jsonl_fpath: 'gone.jsonl' }), {
      rows: [0, 1, 2],
      running: true,
    });
  });

  test('continues with its batch though its materialized inputs were written anew, with blanks and in another order', async (t) => {
    const { go, files, asked } = await bed(t);
    await go();
    const lines = (await readFile(files.materialized, 'utf8')).split('\n').slice(0, -1);
    const anew = lines.toReversed().map((line) => line.replaceAll('":', '": '));
    await writeFile(files.materialized, `${anew.join('\n')}\n`);
    assert.deepEqual(await go(RESUME), { rows: [0, 1, 2], running: true });
    assert.deepEqual(asked, ['attach ID']);
  });

  test('without its materialized inputs is refused while its batch is in the store, and loses nothing', async (t) => {
    const { go, play, batchId, statuses, files, asked } = await bed(t);
    await go();
    await (
      await play()
    )(0, good);
    await go(RESUME);
    await writeFile(files.main, '{"_ng_task_index":0,"_ng_rollout_index":0}\n');
    statuses.set(await batchId(), 'ended');
    await rm(files.materialized);
    await assert.rejects(
      go(RESUME),
      /out_materialized_inputs\.jsonl doesn't exist, and batch out-.* is in the store.*without resume_from_cache/s,
    );
    assert.equal(readRows(files.main).length, 1);
    assert.deepEqual(await go(), { rows: [0, 1, 2], running: true });
    assert.deepEqual(asked, ['start ID']);
  });
});
