/** `temporal-rollout plan`: from measured figures and numbers to what rollouts need. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { FIGURES } from '../../src/cli/plan/figures.js';
import { planned } from '../../src/cli/plan/plan-command.js';
import type { Figures, Row, Workload } from '../../src/cli/plan/plan.js';
import { leastMemory } from '../../src/cli/plan/plan.js';
import { COMMANDS_OF } from '../../src/cli/plan/plan-command.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { MAIN } from '../../lab/bed/command.js';

const EXAMPLE = ['--rollouts', '50000', '--turns', '20', '--turn-time', '6s', '--tokens', '800'];
const ASKED: Workload = { rollouts: 50_000, turns: 20, turn_s: 6, tokens: 800, slice_s: 600 };

function plan(...args: string[]) {
  const options = { cwd: PROJECT_ROOT, timeout: 280_000, encoding: 'utf8' } as const;
  return spawnSync(process.execPath, [MAIN, 'plan', ...args], options);
}

const valuesIn =
  (rows: readonly Row[]) =>
  (part: Row['part'], what: string): number =>
    rows.find((row) => row.part === part && row.what === what)?.value ??
    assert.fail(`${part}: ${what}`);

test('the example of docs/scale.md is what the command prints', async () => {
  const page = await readFile(path.join(PROJECT_ROOT, 'docs', 'scale.md'), 'utf8');
  assert.ok(page.includes(`temporal-rollout plan ${EXAMPLE.join(' ')}\n`));
  const { stdout, status } = plan(...EXAMPLE);
  assert.equal(status, 0);
  assert.ok(page.includes(`\`\`\`text\n${stdout}\`\`\`\n`), stdout);
});

test('--json has the numbers and the command that measured each', () => {
  const { stdout } = plan(...EXAMPLE, '--json');
  const { asked, rows } = JSON.parse(stdout) as {
    asked: Workload;
    rows: (Row & { command: string | null })[];
  };
  assert.deepEqual(asked, ASKED);
  assert.deepEqual(
    rows.map(({ value, command }) => [value, command]),
    planned(ASKED, FIGURES).map(({ value, by }) => [value, by && COMMANDS_OF[by]]),
  );
});

describe('an option that is', () => {
  for (const [what, args, error] of [
    ['no number', ['--rollouts', 'many'], '--rollouts: expected an integer, 1 or more, got "many"'],
    ['zero', ['--turns', '0'], '--turns: expected an integer, 1 or more, got "0"'],
    [
      'a time without a unit',
      ['--turn-time', '6'],
      '--turn-time: expected a duration such as "30s" or "1h", got "6"',
    ],
  ] as const)
    test(`${what} is refused by its name, with what was expected and what came`, () => {
      const { status, stderr } = plan(...EXAMPLE, ...args);
      assert.deepEqual([status, stderr], [2, `temporal-rollout plan: ${error}\n`]);
    });

  test('missing is named, with an example', () => {
    const { status, stderr } = plan(...EXAMPLE.slice(0, -2));
    const error = '--tokens: required, such as --tokens 20';
    assert.deepEqual([status, stderr], [2, `temporal-rollout plan: ${error}\n`]);
  });
});

/** One of everything, so that sums can be done by hand. */
const UNITS: Figures = {
  where: 'nowhere',
  temporal: {
    cpu_ms_rollout: 100,
    cpu_ms_rollout_s: 1,
    cpu_ms_turn: 10,
    requests_rollout: 5,
    heartbeats_rollout_s: 0.1,
    actions_rollout: 3,
    events_rollout: 20,
    history_bytes_rollout: 4000,
    database_bytes_rollout: 8000,
  },
  worker: {
    cpu_ms_rollout: 50,
    cpu_ms_rollout_s: 0.5,
    cpu_ms_turn: 4,
    cpu_ms_token: 0.01,
    resident_bytes_idle: 1e8,
    resident_bytes_rollout: 1e6,
    files_idle: 10,
    files_rollout: 2,
  },
  journal: { bytes_rollout: 1000, bytes_turn: 500, bytes_flush: 100, bytes_token: 10 },
  postgres: { cpu_ms_turn: 2, wal_bytes_turn: 4000, turn_s: 1, tokens: 100 },
};

test('sums are those that one does by hand', () => {
  const rows = planned({ rollouts: 1000, turns: 10, turn_s: 5, tokens: 200, slice_s: 20 }, UNITS);
  const exact = valuesIn(rows);
  // Without what floating point adds.
  const valueOf: typeof exact = (...row) => Number(exact(...row).toPrecision(12));
  // 200 turns and 40,000 tokens a second, 20 rollouts that end; slices of 20 s make two more activities of 50 s.
  assert.equal(valueOf('load', 'tokens'), 40_000);
  // Their heartbeat timeout is half of the measured ones'.
  assert.equal(valueOf('Temporal', 'requests'), 20 * 5 + 1000 * 0.2);
  assert.equal(valueOf('Temporal', 'events of histories'), 20 * (20 + 2 * 6));
  assert.equal(valueOf('Temporal', 'cores of a dev server'), 2 + 2 + 2);
  assert.equal(valueOf('Temporal Cloud', 'actions of a rollout'), 3 + 2 + 50 * 0.2);
  // A turn's tokens are written every 250 ms: 20 lines.
  assert.equal(valueOf('journals', 'a rollout'), 1000 + 10 * (500 + 20 * 100 + 200 * 10));
  assert.equal(valueOf('workers', 'cores'), 2.7);
  assert.equal(valueOf('workers', 'processes, each at most 0.7 of a core'), 4);
  assert.equal(valueOf('workers', 'rollouts of a process'), 250);
  assert.equal(valueOf('workers', 'worker.max_generations, for each of them'), 250);
  assert.equal(valueOf('workers', 'max_in_flight, of all batches together'), 1000);
  assert.equal(valueOf('workers', 'open files of a process'), 10 + 250 * 2);
  // The measured turn: 500 + 4 lines of 100 + 100 tokens of 10 are 1,900 bytes.
  assert.equal(
    valueOf('PostgreSQL', 'write-ahead log'),
    Number(((200 * 4500 * 4000) / 1900).toPrecision(12)),
  );
  assert.equal(valueOf('PostgreSQL', 'cores'), (200 * 2 * 20) / 4 / 1000);
});

test('beyond 2,000 in flight a batch beats no more often, until its timeout has grown to ten minutes', () => {
  const of = (rollouts: number) =>
    valuesIn(planned({ rollouts, turns: 10, turn_s: 5, tokens: 200, slice_s: 600 }, UNITS));
  const beats = [2000, 10_000, 20_000, 40_000].map((n) => of(n)('Temporal', 'of them heartbeats'));
  assert.deepEqual(beats, [200, 200, 200, 400]);
  assert.equal(of(10_000)('Temporal Cloud', 'of them heartbeats'), (200 / 10_000) * 50);
  // 200 rollouts a second that end, 2,000 turns, and the seconds of 10,000 as of 2,000.
  assert.equal(of(10_000)('Temporal', 'cores of a dev server'), 20 + 2 + 20);
});

const asked = fc.record({
  rollouts: fc.integer({ min: 1, max: 200_000 }),
  turns: fc.integer({ min: 1, max: 500 }),
  turn_s: fc.double({ min: 0.01, max: 600, noNaN: true }),
  tokens: fc.integer({ min: 1, max: 20_000 }),
  slice_s: fc.constant(600),
});

test('every figure is a finite number that is not negative, and more rollouts need no less in all', () => {
  fc.assert(
    fc.property(asked, fc.integer({ min: 1, max: 10 }), (one, factor) => {
      const [less, more] = [one, { ...one, rollouts: one.rollouts * factor }].map((each) =>
        planned(each, FIGURES),
      );
      for (const [i, row] of (less ?? []).entries()) {
        assert.ok(Number.isFinite(row.value) && row.value >= 0, `${row.what}: ${row.value}`);
        const isOfItsBeats = row.part === 'Temporal Cloud' && row.what === 'of them heartbeats';
        const isOfOne = isOfItsBeats || /of a|a rollout|in a/.test(row.what);
        if (!isOfOne) assert.ok((more?.[i]?.value ?? 0) >= row.value, row.what);
      }
    }),
  );
});

test('the memory of a process is the least that lets its rollouts play', () => {
  const MIB = 2 ** 20;
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 20_000 }), (rollouts) => {
      const planFor = (bytes: number) => {
        const slots = Math.floor(bytes / MIB / 2);
        return { generations: slots, cached_workflows: slots + 7 };
      };
      const bytes = leastMemory(rollouts, planFor);
      assert.ok(planFor(bytes).generations >= rollouts);
      assert.ok(planFor(bytes - 64 * MIB).generations < rollouts);
    }),
  );
});
