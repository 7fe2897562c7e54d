import assert from 'node:assert/strict';
import { symlink, writeFile } from 'node:fs/promises';
import { describe, test, type TestContext } from 'node:test';
import { shardsOf } from '../../metrics/shards.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

async function folderOf(t: TestContext, names: string[]) {
  const directory = await makeTemporaryDirectory('shards');
  t.after(directory.remove);
  for (const name of names) await writeFile(`${directory.path}/${name}`, '');
  const cwd = directory.path;
  return {
    cwd,
    /** With what is said. */
    shards: (input_glob: string, { output = 'all.jsonl', merge = true } = {}) => {
      const said: string[] = [];
      const report = (line: string) => said.push(line);
      return { found: shardsOf(input_glob, { cwd, output, merge, report }), said };
    },
  };
}

describe('the output of an earlier run', () => {
  test('is no shard of the next one, whatever its path is called, and that is said', async (t) => {
    const { cwd, shards } = await folderOf(t, ['all.jsonl', 'rs0.jsonl', 'rs1.jsonl']);
    await symlink('all.jsonl', `${cwd}/link.jsonl`);
    for (const output of ['all.jsonl', './all.jsonl', `${cwd}/all.jsonl`, 'link.jsonl']) {
      for (const merge of [true, false]) {
        const { found, said } = shards('*.jsonl', { output, merge });
        assert.deepEqual(found, ['rs0.jsonl', 'rs1.jsonl']);
        assert.equal(said[0], 'all.jsonl is not a shard: it is the output, from an earlier run');
      }
    }
  });

  test('is refused where it is named as one of several shards, which the merge would overwrite', async (t) => {
    const { shards } = await folderOf(t, ['all.jsonl', 'rs0.jsonl']);
    assert.throws(
      () => shards('all.jsonl, rs*.jsonl'),
      /^Error: all\.jsonl is a shard and the output, .* give another output_jsonl_fpath/,
    );
    const { found } = shards('all.jsonl,rs*.jsonl', { merge: false });
    assert.deepEqual(found, ['all.jsonl', 'rs0.jsonl']);
  });

  test('is the whole where it is alone', async (t) => {
    const { shards } = await folderOf(t, ['all.jsonl', 'all_failures.jsonl']);
    assert.deepEqual(shards('all*.jsonl').found, ['all.jsonl']);
    assert.deepEqual(shards('all.jsonl').said, []);
  });
});
