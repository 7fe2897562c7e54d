import assert from 'node:assert/strict';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { prepare } from '../../collection/start/prepare.js';
import { RolloutCollectionConfig } from '../../config/schemas.js';
import { collectionFiles } from '../../collection/files.js';
import { createScreen } from '../../../src/client/screen.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

test('an input without rows is refused by its name, and earlier results stay', async (t) => {
  const { path: cwd, remove } = await makeTemporaryDirectory('empty-input');
  t.after(remove);
  const at = (name: string): string => path.join(cwd, name);
  await writeFile(at('in.jsonl'), '');
  await writeFile(at('out.jsonl'), '{"reward":1}\n');
  const shown = collectionFiles('out.jsonl');
  const preparing = (resume_from_cache: boolean) => {
    const fields = { input_jsonl_fpath: 'in.jsonl', output_jsonl_fpath: 'out.jsonl' };
    const config = RolloutCollectionConfig.parse({ ...fields, resume_from_cache });
    const settings = {
      ...{ config: null, environment: null, batch_id: null, run_timeout: null },
      ...{ rollout_timeout: '7d', replace: false, folder: cwd },
    };
    return prepare(
      { config, head_server: 'http://127.0.0.1:1', settings },
      {
        ...{ cwd, env: {}, shown, files: collectionFiles(at('out.jsonl')) },
        screen: createScreen({ write: () => true, on: () => null, off: () => null }, {}),
        signal: new AbortController().signal,
        giveUp: () => assert.fail('gave up'),
      },
    );
  };
  const expected = 'has no rows: expected at least one JSON object, each on a line';
  await assert.rejects(preparing(false), { message: `'in.jsonl' ${expected}` });
  assert.deepEqual(await readdir(cwd), ['in.jsonl', 'out.jsonl']);
  assert.equal(await readFile(at('out.jsonl'), 'utf8'), '{"reward":1}\n');

  await writeFile(at('out_materialized_inputs.jsonl'), '');
  await assert.rejects(preparing(true), {
    message: `'out_materialized_inputs.jsonl' ${expected}`,
  });
});
