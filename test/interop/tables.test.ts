/** What docs/training-data.md says of other libraries, run as it is printed where pandas, datasets and torch are there. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { exampleIn } from '../docs/example.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { writeBoth } from '../python/arrow-files.js';
import { row } from '../python/arrow-rows.js';
import { WITHOUT_TRL } from './trl-bed.js';

const CHECKS = `
assert frame["rollout_id"].tolist() == ["batch/0-0", "batch/1-0", "batch/2-0"], frame
assert len(frame.groupby("group")) == 3 and "rest" not in frame
assert ids[ends[0] : ends[1]].tolist() == frame["input_ids"][0].tolist() and ids.dtype is torch.int32
lines, read = rows["train"], tensors[2]
assert lines["rollout_id"] == frame["rollout_id"].tolist(), lines
flat = [id for message in lines[2]["message_log"] for id in message["token_ids"]]
assert read["input_ids"].tolist() == flat and read["loss_mask"].tolist() == [0, 0] + [1] * 7, read
assert sequences["rollout_id"][:] == lines["rollout_id"][:], sequences
`;

describe('pages on other libraries', { skip: WITHOUT_TRL }, () => {
  test('read rows as pandas, datasets and torch have them', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, [row({ tokens: 3 }), row({ tokens: 5 }), row({ tokens: 7 })]);
    const blocks = [
      await exampleIn('docs/training-data.md', 'pa.memory_map('),
      await exampleIn('docs/training-data.md', 'from datasets import load_dataset'),
    ];
    const env = { ...process.env, HF_HOME: folder, HF_HUB_OFFLINE: '1' };
    const ran = spawnSync(
      process.env['ROLLOUT_TRL_PYTHON'] ?? '',
      ['-c', [...blocks, CHECKS].join('\n')],
      { cwd: folder, env, encoding: 'utf8' },
    );
    assert.equal(ran.status, 0, ran.stderr);
  });
});
