/** What Python hands to other programs: Parquet of rows of any journal, W&B as docs/trainers.md says, a report. */
import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { exampleIn } from '../docs/example.js';
import { arbitraryRow } from '../fakes/arbitrary-row.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { agentJournal, linesOf, rolloutOf } from '../gateway/agent-rows.js';
import { python, skip } from '../harness/python-package.js';
import { writeBoth } from './arrow-files.js';
import { row } from './arrow-rows.js';

/** A column whose value is null is absent, unless null is a value of it: so it is for `logprobs_mode` and for columns of the sample. */
const EQUAL = `
import json
import pyarrow.parquet as pq
from durable_rollouts import export
count = export.parquet("rollouts.jsonl", "rollouts.parquet")
read = list(export.rows(pq.read_table("rollouts.parquet").to_pylist()))
lines = [json.loads(line) for line in open("rollouts.jsonl", encoding="utf-8")]
nulls = ("stop_strings", "idx", "token_lag")
lines = [{name: value for name, value in line.items() if value is not None or name not in nulls} for line in lines]
assert count == len(read) == len(lines), (count, len(lines))
for one, line in zip(read, lines):
    assert one == line, [(name, one.get(name), line.get(name)) for name in one.keys() | line.keys() if one.get(name) != line.get(name)]
print(sum("sequences" in one for one in read))
`;

const METRICS =
  '{"counts": {"completed": 2}, "metrics": {"total_reward/mean": 0.5}, "files": {"rollouts": "rollouts.jsonl"}}';

const IN_A_RUN = `
import glob, json
import durable_rollouts, wandb
from durable_rollouts import Step
batch = durable_rollouts.open(".").batch("step-17")
class stream:
    next_step = staticmethod(lambda step: Step(step, batch._result()))
run = wandb.init()
`;

const KEPT = `
assert log(batch, 17) is False and log(batch, 18) is True
run.finish()
[table, again] = glob.glob("wandb/offline-run-*/files/media/table/rollouts/*.json")
assert {line[0] for line in json.load(open(table))["data"]} == {"batch/0-0", "batch/1-0"}
`;

const SHOWN = `
import durable_rollouts, sys
report = durable_rollouts.open(sys.argv[1]).batch("plain").show("report.html")
page = report.file.read_text(encoding="utf-8")
assert "plain" in page and page.count("<head>") == 1, page[:400]
assert report._repr_html_().count("srcdoc='") == 1
`;

test('a stored batch is shown by the report of the project’s own program', { skip }, async (t) => {
  const folder = await temporaryFolder(t);
  const store = path.join(PROJECT_ROOT, 'test', 'releases', '0.1.0', 'store');
  python(['-c', SHOWN, store], { cwd: folder, PYTHONPATH: PYTHON_PACKAGES });
});

describe('durable_rollouts.export', { skip }, () => {
  test('has the rows of any journal again, from Parquet', async (t) => {
    const folder = await temporaryFolder(t);
    await writeBoth(folder, fc.sample(arbitraryRow, 300));
    python(['-c', EQUAL], { cwd: folder, PYTHONPATH: PYTHON_PACKAGES });
  });

  test('has those of agents whose conversations branch', async (t) => {
    const folder = await temporaryFolder(t);
    const lines = await Promise.all(fc.sample(agentJournal, 200).map(linesOf));
    await writeBoth(
      folder,
      lines.map((one) => rolloutOf(one).row),
    );
    python(['-c', EQUAL], { cwd: folder, PYTHONPATH: PYTHON_PACKAGES });
  });

  test('logs to W&B as docs/trainers.md says, each step once', async (t) => {
    const folder = await temporaryFolder(t);
    await mkdir(path.join(folder, 'step-17'));
    await writeBoth(path.join(folder, 'step-17'), [row({ tokens: 3 }), row({ tokens: 5 })]);
    await writeFile(path.join(folder, 'step-17', 'metrics.json'), METRICS);
    const block = await exampleIn('docs/trainers.md', 'log = export.wandb()');
    python(['-c', `${IN_A_RUN}\n${block}\n${KEPT}`], {
      ...{ cwd: folder, PYTHONPATH: PYTHON_PACKAGES, WANDB_MODE: 'offline', WANDB_SILENT: 'true' },
      ...{ WANDB_CONFIG_DIR: folder, WANDB_CACHE_DIR: folder, WANDB_DATA_DIR: folder },
    });
  });
});
