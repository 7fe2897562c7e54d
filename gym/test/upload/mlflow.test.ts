import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Scalar } from '../../upload/exporter.js';
import { mlflowName } from '../../upload/mlflow.js';
import type { UploadContext } from '../../upload/upload.js';
import { addScalars } from '../../metrics/aggregate.js';
import { exportedResults, uploadOf } from '../../upload/upload.js';
import type { JsonObject } from '../../json/exact.js';
import { parseJson } from '../../json/exact.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import type { MlflowScript } from './mlflow-server.js';
import { startMlflow } from './mlflow-server.js';
import { UPLOADED, writeResults } from './results.js';

const configOf = (url: string): JsonObject =>
  parseJson(
    `{"mlflow_tracking_uri":"${url}/","mlflow_experiment_name":"my eval","mlflow_run_name":"first","mlflow_tracking_token":"a-secret-token","limit":5,"skills":{"path":"lib"},"judge_api_key":"hidden","list":[{"hf_token":"t"},1.0],"empty":{}}`,
  ) as JsonObject;

function heard(): { said: string[]; context: UploadContext } {
  const said: string[] = [];
  const { signal } = new AbortController();
  return { said, context: { cwd: '/', env: {}, say: (line) => said.push(line), signal } };
}

async function uploaded(
  t: TestContext,
  { script = {}, metrics }: { script?: MlflowScript; metrics?: Map<string, Scalar> } = {},
) {
  const server = await startMlflow(t, { token: 'a-secret-token', ...script });
  const directory = await makeTemporaryDirectory('mlflow');
  t.after(directory.remove);
  const file = await writeResults(directory.path);
  const { said, context } = heard();
  const upload = await (await uploadOf(configOf(server.url), context))();
  assert.ok(upload !== null);
  await upload.rollouts(() => exportedResults(file));
  await upload.metrics(metrics ?? new Map([['ag/mean/reward', 0.5]]));
  await upload.close();
  return { ...server, said };
}

describe('an upload to MLflow', () => {
  test('is one run with configuration, metrics and results, and ends', async (t) => {
    const agent_metrics =
      '{"mean/reward":0.5,"pass@2/reward":100.0,"name":"x","per_sample_aggregate":{"reward":[50.0]},"none":null}';
    const metrics = new Map<string, Scalar>();
    addScalars(metrics, { agent: 'ag', agent_metrics, key_metrics: '{"mean/reward":0.5}' });
    const { runs, files, params, tags, said, ...found } = await uploaded(t, { metrics });
    assert.deepEqual(runs, [
      { run_id: 'r1', status: 'FINISHED', experiment_id: '7', run_name: 'first' },
    ]);
    assert.deepEqual(
      found.metrics.map(({ key, value }) => [key, value]),
      [
        ['ag/mean/reward', 0.5],
        ['ag/pass_at_2/reward', 100],
        ['key_metrics/ag/mean/reward', 0.5],
      ],
    );
    const config = JSON.parse(files.get('global_config.json') ?? '') as Record<string, unknown>;
    assert.deepEqual(
      [config['judge_api_key'], config['mlflow_tracking_token'], config['list']],
      ['****', '****', [{ hf_token: '****' }, 1]],
    );
    assert.deepEqual(Object.fromEntries(params.map(({ key, value }) => [key, value])), {
      mlflow_tracking_uri: `${found.url}/`,
      mlflow_experiment_name: 'my eval',
      mlflow_run_name: 'first',
      mlflow_tracking_token: '****',
      limit: '5',
      'skills.path': 'lib',
      judge_api_key: '****',
      'list_0_.hf_token': '****',
      list_1_: '1.0',
    });
    const table = JSON.parse(files.get('rollouts.json') ?? '') as {
      columns: unknown;
      data: [string][];
    };
    assert.deepEqual(table.columns, ['Rollout']);
    assert.deepEqual(table.data.flat(), UPLOADED);
    assert.deepEqual(tags, [
      { key: 'mlflow.loggedArtifacts', value: '[{"path":"rollouts.json","type":"table"}]' },
      { key: 'ag/name', value: 'x' },
    ]);
    assert.deepEqual(said, [
      'Uploading rollouts. This may take a few minutes if your data is large.',
    ]);
  });

  test('uses an experiment that is there, or that another creates meanwhile', async (t) => {
    const there = await uploaded(t, { script: { experiments: { 'my eval': '3' } } });
    assert.equal(there.runs[0]?.experiment_id, '3');
    assert.ok(!there.calls.includes('POST mlflow/experiments/create'));
    const raced = await uploaded(t, { script: { race: true } });
    assert.equal(raced.runs[0]?.experiment_id, '7');
  });

  test('sends no more in one call than MLflow takes', async (t) => {
    const metrics = new Map<string, Scalar>();
    for (let i = 0; i < 2500; i++) metrics.set(`ag/m${i}`, i);
    for (let i = 0; i < 150; i++) metrics.set(`ag/t${i}`, 'text');
    const { sizes, ...found } = await uploaded(t, { metrics });
    assert.deepEqual(sizes.slice(-5), [1000, 1000, 500, 100, 50]);
    assert.equal(found.metrics.length, 2500);
  });

  test('that fails costs nothing but itself, and says so', async (t) => {
    const cases: [MlflowScript, RegExp, string[]][] = [
      [
        { failing: { 'runs/create': 500 } },
        /^WARNING: mlflow has no run of this collection; continuing without it: POST mlflow\/runs\/create answered 500/,
        [],
      ],
      [{ token: 'another' }, /has no run .* answered 401/, []],
      [
        { failing: { 'rollouts.json': 413 } },
        /^WARNING: mlflow has no rollouts; .* answered 413/,
        ['FINISHED'],
      ],
      [
        { failing: { 'runs/update': 503 } },
        /has a run that did not end; .* answered 503/,
        ['RUNNING'],
      ],
      [
        { artifact_uri: 's3://bucket/7/r1' },
        /its files are kept at s3:\/\/bucket\/7\/r1; only a server that takes files itself/,
        ['RUNNING'],
      ],
    ];
    for (const [script, why, statuses] of cases) {
      const { said, runs } = await uploaded(t, { script });
      assert.match(said.find((line) => line.startsWith('WARNING')) ?? '', why);
      assert.deepEqual(
        runs.map(({ status }) => status),
        statuses,
      );
    }
  });

  test('happens only where a server, an experiment and a run are named', async () => {
    const { said, context } = heard();
    const of = async (config: JsonObject) => await (await uploadOf(config, context))();
    assert.equal(await of({ mlflow_tracking_uri: 'http://registry' }), null);
    assert.equal(said.length, 0);
    assert.equal(await of({ mlflow_run_name: 'r' }), null);
    assert.equal(
      said.at(-1),
      'WARNING: nothing is uploaded to MLflow: mlflow_tracking_uri and mlflow_experiment_name missing',
    );
    const names = { mlflow_experiment_name: 'e', mlflow_run_name: 'r' };
    assert.equal(await of({ ...names, mlflow_tracking_uri: 'file:///mlruns' }), null);
    assert.match(said.at(-1) ?? '', /expected the URL of a tracking server, http:.*got "file:/);
  });
});

describe('a name for MLflow', () => {
  test('is readable, keeps both ends of a long one, and is null where nothing is left', () => {
    assert.equal(mlflowName('ag/pass@1[avg-of-4]/reward'), 'ag/pass_at_1_avg-of-4_/reward');
    assert.equal(mlflowName('../a//./b/'), '__/a/_/b');
    assert.equal(mlflowName('//'), null);
    const long = mlflowName(`ag/${'x'.repeat(400)}/mean/reward`) ?? '';
    assert.equal(long.length, 250);
    assert.match(long, /^ag\/x+___x+\/mean\/reward$/);
  });

  test('is one that MLflow takes, whatever it was', () => {
    const text = fc.string({ unit: fc.constantFrom('a', '@', '.', '/', ' ', 'ä', '[', '😀') });
    fc.assert(
      fc.property(fc.array(text), (parts) => {
        const name = mlflowName(parts.join('x'.repeat(40)));
        if (name === null) return;
        assert.ok(name.length <= 250 && /^[/\p{L}\p{N}_.\- :]+$/u.test(name), name);
        for (const part of name.split('/')) assert.doesNotMatch(part, /^\.*$/);
        assert.doesNotMatch(name, /^\.\./);
      }),
    );
  });
});
