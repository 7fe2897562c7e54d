import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { before, describe, test } from 'node:test';
import type { ChaosReport } from '../../chaos/report.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { noPostgres } from '../harness/postgres-server.js';

const FAULTS = {
  file: ['engine-kill', 'stream-cut', 'torn-line', 'worker-kill'],
  postgres: ['database-kill', 'engine-kill', 'lost-answers', 'stream-cut', 'worker-kill'],
};
const TIMEOUT_MS = 15 * 60_000;

for (const store of ['file', 'postgres'] as const) {
  describe(
    `npm run chaos -- --short --store ${store} --json`,
    { skip: store === 'postgres' && noPostgres },
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

      test('loses no rollout, duplicates no row and generates no finished turn again', () => {
        for (const {
          name,
          rollouts_lost,
          rows_duplicated,
          turns_generated_twice,
        } of report.faults) {
          const counted = { name, rollouts_lost, rows_duplicated, turns_generated_twice };
          assert.deepEqual(counted, {
            name,
            rollouts_lost: 0,
            rows_duplicated: 0,
            turns_generated_twice: 0,
          });
        }
      });

      test('samples no more tokens twice than 64, or 250 ms, of each open stream, and those of a commit', () => {
        for (const { name, tokens_sampled_twice, tokens_limit } of report.faults) {
          assert.ok(
            tokens_sampled_twice <= tokens_limit,
            `${name}: ${tokens_sampled_twice} tokens`,
          );
          assert.ok(tokens_limit > 0);
        }
      });

      test('measures recovery, and the bare loops beside it', () => {
        for (const {
          name,
          recovery_s,
          restart_all,
          restart_unfinished,
          durable,
        } of report.faults) {
          assert.ok(recovery_s !== null && recovery_s > 0, `${name} has no recovery`);
          assert.ok(durable.time_to_finish_s > 0);
          if (name !== 'worker-kill') continue;
          assert.ok(restart_all!.wasted_tokens > 0 && restart_unfinished!.wasted_tokens > 0);
        }
      });

      test('ends with exit code 0 when no bound is broken', () => {
        assert.deepEqual(
          report.faults.flatMap(({ broken }) => broken),
          [],
        );
        assert.deepEqual([report.ok, code], [true, 0]);
      });
    },
  );
}

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
