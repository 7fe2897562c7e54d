/** Package durable_rollouts without a server: its own tests, its types, and that it installs as its README says. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { jsonSchemaOf } from '../../src/model/json-schema.js';
import { PYTHON_PACKAGES, trainerInstall } from '../../src/dev/trainer-example.js';
import { BatchRequest } from '../../src/model/batch-request.js';
import { FAULT_TYPES } from '../../src/model/faults.js';
import { Publish } from '../../src/model/policy/publish.js';
import { BatchResult, StepResult } from '../../src/model/results/result.js';
import { Row } from '../../src/model/results/row-columns.js';
import { StreamRequest } from '../../src/model/stream/stream-request.js';
import { arbitraryRow } from '../fakes/arbitrary-row.js';

const install = trainerInstall(process.env);
const skip = existsSync(install.stamp)
  ? false
  : 'what the Python package needs is not installed: `node tools/setup.mjs --test` says why';

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

const indices = (start: number, end: number): number[] =>
  Array.from({ length: end - start }, (_, k) => start + k);

type Place = Record<string, string>;

function ran(
  [command = '', ...args]: string[],
  { cwd = PYTHON_PACKAGES, ...env }: Place = {},
): { status: number | null; report: string } {
  const { status, stdout, stderr } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    env: { ...process.env, PYTHONDONTWRITEBYTECODE: '1', ...env },
    timeout: 280_000,
  });
  return { status, report: `${stdout}${stderr}` };
}

function python(args: string[], place?: Place): string {
  const { status, report } = ran([install.python, ...args], place);
  assert.equal(status, 0, report);
  return report;
}

/** The one that its package on PyPI contains, with this Node.js: its own command would look for one. */
function pyright(files: string[], place: Place): ReturnType<typeof ran> {
  const found = python(['-c', 'import pyright; print(pyright.__path__[0])']).trim();
  const main = path.join(found, 'dist', 'index.js');
  return ran([process.execPath, main, '--pythonpath', install.python, ...files], place);
}

async function scratch(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'python-package-'));
  t.after(() => rm(folder, { recursive: true }));
  return folder;
}

test('both packages have one version and one licence', async () => {
  const { version } = JSON.parse(await readFile('package.json', 'utf8')) as { version: string };
  const module = await readFile(path.join(PYTHON_PACKAGES, 'durable_rollouts', '__init__.py'), 'utf8'); // prettier-ignore
  assert.equal(/^__version__ = "(.*)"$/m.exec(module)?.[1], version);
  const licence = await readFile(path.join(PYTHON_PACKAGES, 'LICENSE'), 'utf8');
  assert.equal(licence, await readFile('LICENSE', 'utf8'));
});

describe('package durable_rollouts', { skip }, () => {
  test('has the fields, types and defaults of the schemas, and passes its other tests', async (t) => {
    const schemas = path.join(await scratch(t), 'schemas.json');
    const requests = {
      BatchRequest: jsonSchemaOf(BatchRequest),
      StreamRequest: jsonSchemaOf(StreamRequest),
      PublishRequest: jsonSchemaOf(Publish),
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
    const losses = read.stdout.trimEnd().split('\n').map((line) => JSON.parse(line) as Losses); // prettier-ignore
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

  for (const version of ['3.10', '3.13']) {
    test(`is well typed for Python ${version}`, async (t) => {
      const cache = await scratch(t);
      const report = python(['-m', 'mypy', '--cache-dir', cache, '--python-version', version]);
      assert.match(report, /^Success: no issues found in \d+ source files/);
    });
  }

  /** Installs the package from a copy of its sources, without a network. */
  async function installed(t: TestContext): Promise<{ folder: string; target: string }> {
    const folder = await scratch(t);
    const [source, target] = [path.join(folder, 'python'), path.join(folder, 'target')];
    await cp(PYTHON_PACKAGES, source, { recursive: true });
    const pip = [
      '-m',
      'pip',
      'install',
      '--quiet',
      '--no-index',
      '--no-deps',
      '--no-build-isolation',
      '--disable-pip-version-check',
    ];
    python([...pip, '--target', target, source]);
    return { folder, target };
  }

  test('is installed by pip, with its types and beside rollout_environment', async (t) => {
    const { folder, target } = await installed(t);
    const ask =
      'import durable_rollouts as d, rollout_environment.retriever as s, rollout_environment as r; print(d.__file__, r.__file__, s.Retriever, d.Client.connect.__doc__)';
    const answer = python(['-c', ask], { PYTHONPATH: target, cwd: folder });
    assert.ok(answer.startsWith(`${target}/durable_rollouts/__init__.py ${target}/rollout_environment/__init__.py`), answer); // prettier-ignore
    assert.ok(existsSync(path.join(target, 'durable_rollouts', 'py.typed')));
    const origin = 'from durable_rollouts.stack import _origin; print(_origin())';
    const clone = python(['-c', origin], { PYTHONPATH: target, cwd: folder });
    assert.equal(
      clone.trim(),
      folder,
      'local() does not find the clone that it was installed from',
    );
  });

  test('gives a program of a user its types: mypy --strict and pyright pass it, and find each mistake', async (t) => {
    const { folder, target } = await installed(t);
    await cp(path.join(PYTHON_PACKAGES, 'tests', 'typed'), folder, { recursive: true });
    const place = { PYTHONPATH: target, cwd: folder };
    const files = ['user_program.py', 'mistakes.py'];
    const wrong = (await readFile(path.join(folder, 'mistakes.py'), 'utf8'))
      .split('\n')
      .flatMap((line, at) => (line.endsWith('# wrong') ? [`mistakes.py:${at + 1}`] : []));
    const mypy = ['-m', 'mypy', '--strict', '--cache-dir', path.join(folder, 'cache'), ...files];
    for (const [tool, report] of [
      ['mypy', ran([install.python, ...mypy], place).report],
      ['pyright', pyright(files, place).report],
    ] as const) {
      const found = [...report.matchAll(/(\w+\.py:\d+).*error/g)].map(([, at]) => at);
      assert.deepEqual([...new Set(found)], wrong, `${tool}: ${report}`);
    }
  });
});
