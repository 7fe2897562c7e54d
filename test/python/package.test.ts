/** Package durable_rollouts without a server: its own tests, its types, and that it installs as its README says. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { jsonSchemaOf } from '../../src/model/json-schema.js';
import { PYTHON_PACKAGES } from '../../src/dev/trainer-example.js';
import { BatchRequest, SingleRollout } from '../../src/model/batch-request.js';
import { FAULT_TYPES } from '../../src/model/faults.js';
import { Release } from '../../src/model/policy/holder.js';
import { Publish } from '../../src/model/policy/publish.js';
import { Drain, Join, Leave } from '../../src/model/policy/replicas.js';
import { Sleep, Wake } from '../../src/model/policy/sleep.js';
import { Begin } from '../../src/model/policy/transfer.js';
import { BatchResult, StepResult } from '../../src/model/results/result.js';
import { Row } from '../../src/model/results/row-columns.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { arbitraryRow } from '../fakes/arbitrary-row.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { install, installed, python, skip, wellTyped } from '../harness/python-package.js';

/** Faults of rows and of calls, beside those that services throw. */
const OTHER_FAULTS = ['TimedOut', 'Stopped', 'Cancelled', 'TooFewValid', 'UpdateRefused'];

/** Of each row its loss mask as releases before `train_mask` decided it, and as the row says it; null: refused. */
const BEFORE_AND_AFTER = `
import json, sys, warnings
from durable_rollouts import to_arrays
warnings.simplefilter("ignore")
def loss(row):
    try:
        return to_arrays([row], require_logprobs=False).loss_mask[0].tolist()
    except ValueError:
        return None
for line in sys.stdin:
    row = json.loads(line)
    old = {name: value for name, value in row.items() if name != "train_mask"}
    print(json.dumps({"before": loss(old), "after": loss(row)}))
`;

interface Losses {
  before: number[] | null;
  after: number[] | null;
}

/** It has no default, and its columns are the user's. */
function withoutSample(schema: Record<string, unknown>): unknown {
  const { sample, ...properties } = schema['properties'] as Record<string, unknown>;
  assert.ok(sample);
  return { ...schema, properties, required: [] };
}

const indices = (start: number, end: number): number[] =>
  Array.from({ length: end - start }, (_, k) => start + k);

test('both packages have one version and one licence', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
  const module = await readFile(
    path.join(PYTHON_PACKAGES, 'durable_rollouts', '__init__.py'),
    'utf8',
  );
  assert.equal(/^__version__ = "(.*)"$/m.exec(module)?.[1], version);
  const licence = await readFile(path.join(PYTHON_PACKAGES, 'LICENSE'), 'utf8');
  assert.equal(licence, await readFile('LICENSE', 'utf8'));
});

describe('package durable_rollouts', { skip }, () => {
  test('has the fields, types and defaults of the schemas, and passes its other tests', async (t) => {
    const schemas = path.join(await temporaryFolder(t), 'schemas.json');
    const requests = {
      BatchRequest: jsonSchemaOf(BatchRequest),
      RolloutSettings: withoutSample(jsonSchemaOf(SingleRollout)),
      StreamRequest: jsonSchemaOf(StreamRequest),
      PublishRequest: jsonSchemaOf(Publish),
      BeginRequest: jsonSchemaOf(Begin),
      SleepRequest: jsonSchemaOf(Sleep),
      WakeRequest: jsonSchemaOf(Wake),
      ReleaseRequest: jsonSchemaOf(Release),
      JoinRequest: jsonSchemaOf(Join),
      DrainRequest: jsonSchemaOf(Drain),
      LeaveRequest: jsonSchemaOf(Leave),
    };
    const results = {
      Row: jsonSchemaOf(Row),
      BatchResult: jsonSchemaOf(BatchResult),
      StepResult: jsonSchemaOf(StepResult),
    };
    const faults = [...FAULT_TYPES, ...OTHER_FAULTS];
    await writeFile(schemas, JSON.stringify({ requests, results, faults }));
    const report = python(['-m', 'unittest', 'discover', '-s', path.join('tests', 'unit')], {
      PYTHONPATH: PYTHON_PACKAGES,
      SCHEMAS: schemas,
    });
    assert.match(report, /\nRan [1-9]\d* tests in /);
  });

  test('trains on what it trained on before rows said it, for rows of any journal', () => {
    const rows = fc.sample(arbitraryRow, 2000);
    const read = spawnSync(install.python, ['-c', BEFORE_AND_AFTER], {
      cwd: PYTHON_PACKAGES,
      input: rows.map((row) => JSON.stringify(row)).join('\n'),
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    });
    assert.equal(read.status, 0, read.stderr);
    const losses = read.stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Losses);
    assert.equal(losses.length, rows.length);
    const seen = { trained: 0, masked: 0, weightless: 0, refused: 0, bare: 0, agents: 0 };
    for (const [at, { before, after }] of losses.entries()) {
      const row = rows[at]!;
      assert.deepEqual(after, before, JSON.stringify(row));
      const trained = row.train_mask.flatMap(({ start, end }) => indices(start, end));
      const losing = (before ?? []).flatMap((loss, id) => (loss > 0 ? [id] : []));
      assert.deepEqual(trained, losing, JSON.stringify(row));
      seen.trained += trained.length;
      seen.masked += Number(row.masked !== undefined && row.masked.length > 0 && losing.length > 0);
      seen.weightless += Number(row.loss_multiplier === 0 && before !== null);
      seen.refused += Number(before === null);
      seen.bare += Number(losing.length > 0 && row.logprobs_mode === null);
      seen.agents += Number(losing.length > 0 && 'agent_result' in row);
    }
    for (const [what, count] of Object.entries(seen))
      assert.ok(count >= 15, `only ${count} of ${what}: this proves little`);
  });

  // For other versions, and programs of users: test/long/python-types.test.ts.
  test('is well typed for Python 3.10', () => {
    wellTyped('3.10');
  });

  test('is installed by pip, with its types and beside rollout_environment', async (t) => {
    const { folder, target } = await installed(t);
    const ask =
      'import durable_rollouts as d, rollout_environment.retriever as s, rollout_environment as r; print(d.__file__, r.__file__, s.Retriever, d.Client.connect.__doc__)';
    const answer = python(['-c', ask], { PYTHONPATH: target, cwd: folder });
    assert.ok(
      answer.startsWith(
        `${target}/durable_rollouts/__init__.py ${target}/rollout_environment/__init__.py`,
      ),
      answer,
    );
    assert.ok(existsSync(path.join(target, 'durable_rollouts', 'py.typed')));
    const origin = 'from durable_rollouts.stack import _origin; print(_origin())';
    const clone = python(['-c', origin], { PYTHONPATH: target, cwd: folder });
    assert.equal(
      clone.trim(),
      folder,
      'local() does not find the clone that it was installed from',
    );
  });
});
