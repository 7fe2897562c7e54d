/** What docs/arrow.md says of other libraries, run as it is printed where pandas, datasets and torch are there. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
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

const METRICS =
  '{"counts": {"completed": 3}, "metrics": {}, "files": {"rollouts": "rollouts.jsonl"}}';

const EXPORTED = `
import json
from datasets import concatenate_datasets, load_dataset
lines = list(map(json.loads, open(batch.folder / "rollouts.jsonl", encoding="utf-8")))
assert list(export.rows(dataset)) == lines == list(export.rows(load_dataset("parquet", data_files="step-17.parquet", streaming=True)["train"]))
assert (arrays.input_ids == to_arrays(lines).input_ids).all() and arrays.loss_mask.sum() > 0
assert dataset[2]["message_log"][1]["token_ids"] == lines[2]["message_log"][1]["token_ids"]
export.parquet([], "none.parquet")
export.parquet(lines[:1], "one.parquet")
both = load_dataset("parquet", data_files=["none.parquet", "one.parquet", "step-17.parquet"], split="train")
assert both["rollout_id"][:] == ["batch/0-0", "batch/0-0", "batch/1-0", "batch/2-0"], both["rollout_id"][:]
assert len(concatenate_datasets([dataset, both])) == 7
assert dataset.with_format("torch", columns=["total_reward"])[0]["total_reward"].item() > 0
`;

describe('pages on other libraries', { skip: WITHOUT_TRL }, () => {
  test('read rows as pandas, datasets and torch have them', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, [row({ tokens: 3 }), row({ tokens: 5 }), row({ tokens: 7 })]);
    const blocks = [
      await exampleIn('docs/arrow.md', 'pa.memory_map('),
      await exampleIn('docs/arrow.md', 'load_dataset("json"'),
    ];
    const env = { ...process.env, HF_HOME: folder, HF_HUB_OFFLINE: '1' };
    const ran = spawnSync(
      process.env['ROLLOUT_TRL_PYTHON'] ?? '',
      ['-c', [...blocks, CHECKS].join('\n')],
      { cwd: folder, env, encoding: 'utf8' },
    );
    assert.equal(ran.status, 0, ran.stderr);
  });

  test('load what export.parquet wrote as the rows that it was made of', async (t) => {
    const folder = await temporaryFolder(t);
    const batch = path.join(folder, '.rollouts', 'trajectories', 'step-17');
    await mkdir(batch, { recursive: true });
    // Later rows have what the first has not.
    const info = ['{}', '{"a": 1}', '{"a": "1", "b": [null, {"c": []}]}'];
    await writeBoth(
      batch,
      info.map((one, at) => row({ tokens: 3 + at, info: one })),
    );
    await writeFile(path.join(batch, 'metrics.json'), METRICS);
    const block = await exampleIn('docs/arrow.md', 'export.parquet(batch');
    const env = { ...process.env, HF_HOME: folder, HF_HUB_OFFLINE: '1' };
    const PYTHONPATH = [PYTHON_PACKAGES, process.env['PYTHONPATH'] ?? ''].join(':');
    const ran = spawnSync(
      process.env['ROLLOUT_TRL_PYTHON'] ?? '',
      ['-c', `${block}\n${EXPORTED}`],
      { cwd: folder, env: { ...env, PYTHONPATH }, encoding: 'utf8' },
    );
    assert.equal(ran.status, 0, ran.stderr);
  });
});
