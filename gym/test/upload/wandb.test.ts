import assert from 'node:assert/strict';
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { install, python, skip } from '../../../test/harness/python-package.js';
import { addScalars } from '../../metrics/aggregate.js';
import type { Scalar } from '../../upload/exporter.js';
import { exportedResults, uploadOf } from '../../upload/upload.js';
import type { JsonObject } from '../../json/exact.js';
import { parseJson } from '../../json/exact.js';
import { UPLOADED, writeResults } from './results.js';

/** What the package keeps of a run that is not sent: records, in the format of LevelDB's logs. */
const READ = `
import glob, json, sys
from google.protobuf.json_format import MessageToDict
from wandb.proto import wandb_internal_pb2 as proto

[file] = glob.glob(sys.argv[1] + "/offline-run-*/run-*.wandb")
data = open(file, "rb").read()
at, whole = 7, b""
said = {"history": [], "config": {}, "exit": None}
while at + 7 <= len(data):
    left = 32768 - at % 32768
    if left < 7:
        at += left
        continue
    length, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
    whole += data[at + 7 : at + 7 + length]
    at += 7 + length
    if kind not in (1, 4):
        continue
    record, whole = proto.Record.FromString(whole), b""
    if record.HasField("run"):
        said.update(project=record.run.project, name=record.run.display_name)
    for of in (record.run.config, record.config):
        for item in of.update:
            said["config"][item.key or "/".join(item.nested_key)] = json.loads(item.value_json)
    if record.HasField("history"):
        said["history"].append({item.key or "/".join(item.nested_key): json.loads(item.value_json) for item in record.history.item})
    if record.HasField("exit"):
        said["exit"] = record.exit.exit_code
print(json.dumps(said))
`;

interface KeptRun {
  project: string;
  name: string;
  config: Record<string, unknown>;
  history: Record<string, unknown>[];
  exit: number | null;
}

const configOf = (more = ''): JsonObject =>
  parseJson(
    `{"wandb_project":"my eval","wandb_name":"first","wandb_api_key":"${'k'.repeat(40)}","limit":5,"ratio":1.0,"skills":{"path":"lib"},"judge_api_key":"hidden"${more}}`,
  ) as JsonObject;

async function bed(t: TestContext, env: NodeJS.ProcessEnv = {}) {
  const directory = await makeTemporaryDirectory('wandb');
  t.after(directory.remove);
  const said: string[] = [];
  const context = {
    cwd: directory.path,
    env: {
      ...process.env,
      ...{
        WANDB_MODE: 'offline',
        WANDB_CONFIG_DIR: directory.path,
        WANDB_CACHE_DIR: directory.path,
      },
      ROLLOUT_WANDB_PYTHON: install.python,
      ...env,
    },
    say: (line: string) => said.push(line),
    signal: new AbortController().signal,
  };
  return { folder: directory.path, said, context };
}

const warnings = (said: string[]): string[] => said.filter((line) => line.startsWith('WARNING'));

describe('an upload to W&B', { skip }, () => {
  test('is one run with configuration, results and metrics, and ends', async (t) => {
    const { folder, said, context } = await bed(t);
    const file = await writeResults(folder);
    const upload = await (await uploadOf(configOf(), context))();
    assert.ok(upload !== null);
    await upload.rollouts(() => exportedResults(file));
    const agent_metrics =
      '{"mean/reward":0.5,"pass@2/reward":100.0,"name":"x","per_sample_aggregate":{"reward":[50.0]},"none":null}';
    const scalars = new Map<string, Scalar>();
    addScalars(scalars, { agent: 'ag', agent_metrics, key_metrics: '{"mean/reward":0.5}' });
    await upload.metrics(scalars);
    await upload.close();
    assert.deepEqual(warnings(said), []);
    const runs = path.join(folder, 'results', 'wandb', 'wandb');
    const run = JSON.parse(python(['-c', READ, runs])) as KeptRun;
    assert.deepEqual([run.project, run.name, run.exit], ['my eval', 'first', 0]);
    delete run.config['_wandb'];
    assert.deepEqual(run.config, {
      wandb_project: 'my eval',
      wandb_name: 'first',
      wandb_api_key: '****',
      limit: 5,
      ratio: 1,
      skills: { path: 'lib' },
      judge_api_key: '****',
    });
    const [rollouts, metrics, ...others] = run.history;
    assert.deepEqual(others, []);
    assert.deepEqual(
      [rollouts?.['Rollouts/_type'], rollouts?.['Rollouts/nrows']],
      ['table-file', 2],
    );
    const table = String(rollouts?.['Rollouts/path']);
    const [own = ''] = (await readdir(runs)).filter((name) => name.startsWith('offline-run-'));
    const kept = await readFile(path.join(runs, own, 'files', table), 'utf8');
    const { columns, data } = JSON.parse(kept) as { columns: unknown; data: string[][] };
    assert.deepEqual([columns, data.flat()], [['Rollout'], UPLOADED]);
    const logged = Object.entries(metrics ?? {}).filter(([name]) => !name.startsWith('_'));
    assert.deepEqual(Object.fromEntries(logged), {
      'ag/mean/reward': 0.5,
      'ag/pass@2/reward': 100,
      'ag/name': 'x',
      'key_metrics/ag/mean/reward': 0.5,
    });
  });

  test('keeps its files below results_dir, and one that cannot costs nothing but itself', async (t) => {
    const { folder, said, context } = await bed(t);
    await writeFile(path.join(folder, 'file'), '');
    const upload = await (await uploadOf(configOf(',"results_dir":"file"'), context))();
    await upload?.metrics(new Map([['a', 1]]));
    await upload?.close();
    const [why, ...others] = warnings(said);
    assert.match(
      why ?? '',
      /^WARNING: wandb has no run of this collection; continuing without it: NotADirectoryError: .*file\/wandb/,
    );
    assert.deepEqual(others, []);
  });
});

describe('an upload to W&B without its package', () => {
  test('is refused before anything is done, with the command that installs it', async (t) => {
    const { context } = await bed(t, { ROLLOUT_WANDB_PYTHON: '/no/python' });
    await assert.rejects(
      uploadOf(configOf(), context),
      /needs the Python package wandb, and \/no\/python cannot load it: `\/no\/python` was not found\. Install it with: \/no\/python -m pip install wandb\. .*ROLLOUT_WANDB_PYTHON/,
    );
  });

  test('is refused also in a folder in which a run has left its files', async (t) => {
    const { folder, context } = await bed(t);
    const program = path.join(folder, 'bare-python');
    await writeFile(program, '#!/bin/sh\nexec python3 -S "$@"\n', { mode: 0o755 });
    await mkdir(path.join(folder, 'wandb'));
    const env = { ...context.env, ROLLOUT_WANDB_PYTHON: program, PYTHONPATH: folder };
    await assert.rejects(
      uploadOf(configOf(), { ...context, env }),
      /bare-python cannot load it: it has no package wandb\. Install it with: .*bare-python -m pip install wandb/,
    );
  });

  test('whose process ends costs nothing but itself, and names what that said last', async (t) => {
    const { folder, said, context } = await bed(t);
    const program = path.join(folder, 'dying-python');
    const script = '#!/bin/sh\ntest "$2" = --check && exit 0\necho no room >&2\nexit 3\n';
    await writeFile(program, script, { mode: 0o755 });
    const env = { ...context.env, ROLLOUT_WANDB_PYTHON: program };
    const upload = await (await uploadOf(configOf(), { ...context, env }))();
    await upload?.close();
    assert.deepEqual(said, [
      'no room',
      'WARNING: wandb has no run of this collection; continuing without it: its process ended with exit code 3: no room',
    ]);
  });

  test('is none where project, name or key are missing, and says which', async (t) => {
    const { said, context } = await bed(t, { ROLLOUT_WANDB_PYTHON: '/no/python' });
    const of = async (config: JsonObject) => await (await uploadOf(config, context))();
    assert.equal(await of({ wandb_api_key: 'k' }), null);
    assert.deepEqual(said, []);
    assert.equal(await of({ wandb_name: 'r', wandb_api_key: '****' }), null);
    assert.deepEqual(said, [
      'WARNING: nothing is uploaded to W&B: wandb_project and wandb_api_key missing',
    ]);
  });
});
