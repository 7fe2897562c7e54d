/** Package durable_rollouts without a server: its own tests, its types, and that it installs as its README says. */
import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { jsonSchemaOf } from '../../src/model/json-schema.js';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { BatchRequest, SingleRollout } from '../../src/model/batch-request.js';
import { FAULT_TYPES } from '../../src/model/faults.js';
import { Begin, Publish, Release, Sleep, Wake } from '../../src/model/policy/orders.js';
import { Drain, Join, Leave } from '../../src/model/policy/replicas.js';
import { BatchResult, StepResult } from '../../src/model/results/result.js';
import { Row } from '../../src/model/results/row-columns.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { installed, python, skip, wellTyped } from '../harness/python-package.js';

/** Faults of rows and of calls, beside those that services throw. */
const OTHER_FAULTS = ['TimedOut', 'Stopped', 'Cancelled', 'TooFewValid', 'UpdateRefused'];

/** It has no default, and its columns are the user's. */
function withoutSample(schema: Record<string, unknown>): unknown {
  const { sample, ...properties } = schema['properties'] as Record<string, unknown>;
  assert.ok(sample);
  return { ...schema, properties, required: [] };
}

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
