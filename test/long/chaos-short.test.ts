import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { before, describe, test } from 'node:test';
import type { ChaosReport } from '../../lab/chaos/report.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { noPostgres } from '../../lab/bed/postgres-server.js';

const FAULTS = {
  file: ['engine-kill', 'stream-cut', 'torn-line', 'worker-kill'],
  postgres: ['database-kill', 'engine-kill', 'lost-answers', 'stream-cut', 'worker-kill'],
};
const TIMEOUT_MS = 15 * 60_000;

/** It has the faults of files but a torn line, and those of a database. */
const store = noPostgres === false ? 'postgres' : 'file';
describe(
  `npm run chaos -- --short --store ${store} --json`,
  { timeout: TIMEOUT_MS + 10_000 },
  () => {
    let code: number | string | null | undefined;
    let report: ChaosReport;

    before(async () => {
      const { stdout, stderr, failure } = await run(store);
      // The seed and the table.
      console.log(stderr);
      code = failure === null ? 0 : failure.code;
      report = JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as ChaosReport;
    });

    test('plays faults of worker, engine, wire and store, and each strikes', () => {
      assert.deepEqual(report.not_played, []);
      assert.deepEqual(report.faults.map(({ name }) => name).sort(), FAULTS[store]);
      for (const { name, interrupted_streams } of report.faults) {
        assert.ok(interrupted_streams > 0, `${name} struck nothing`);
      }
    });

    // test/lab/chaos/report.test.ts has what breaks one: what is lost, twice there, or sampled twice beyond the limit.
    test('breaks no bound, and ends with exit code 0', () => {
      assert.ok(report.faults.every(({ tokens_limit }) => tokens_limit > 0));
      assert.deepEqual(
        report.faults.flatMap(({ broken }) => broken),
        [],
      );
      assert.deepEqual([report.ok, code], [true, 0]);
    });
  },
);

interface Run {
  stdout: string;
  stderr: string;
  /** null: exit code 0. */
  failure: { code?: number | string | null } | null;
}

function run(store: string): Promise<Run> {
  const command = [
    'run',
    '--silent',
    'chaos',
    '--',
    '--short',
    '--store',
    store,
    '--seed',
    '1',
    '--json',
  ];
  return new Promise((resolve) => {
    const options = { cwd: PROJECT_ROOT, timeout: TIMEOUT_MS, maxBuffer: 64 * 2 ** 20 };
    execFile('npm', command, options, (failure, ...[stdout, stderr]) => {
      resolve({ failure, stdout, stderr });
    });
  });
}
