/** Scenarios of one run get their own places on the page of tables, and a line for each bound. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Run } from '../../../lab/bench/measure.js';
import type { Measured } from '../../../lab/bench/report.js';
import { reportsOf } from '../../../lab/bench/report.js';
import type { ContenderName } from '../../../lab/bench/scenario.js';
import { SCENARIOS } from '../../../lab/bench/scenario.js';

const TURNS = 10;

const run = (contender: ContenderName, cpu: Pick<Run['cpu_ms'], 'server' | 'worker'>): Run => ({
  ...{ contender, rollouts: 1, turns: TURNS, wall_s: 1 },
  cpu_ms: { server: TURNS * cpu.server, worker: TURNS * cpu.worker, simulator: 500 },
  peak_mb: { server: 0, worker: 0, simulator: 0 },
});

/** The bound is 4 + 1.5 x 2 = 7 ms. */
const fastTurns = (durable_ms: number): Measured => ({
  scenario: SCENARIOS.find(({ name }) => name === '64 at once')!,
  rounds: [
    {
      durable: run('durable', { server: 3, worker: durable_ms - 3 }),
      empty: run('empty', { server: 3, worker: 1 }),
      bare: run('bare', { server: 0, worker: 2 }),
    },
  ],
});

const boundsIn = (report: string): string[] =>
  report.split('\n').filter((line) => /^(PASS|FAIL) /.test(line));

test('a bound counts server and worker, and has one line', () => {
  const [[place, report] = ['', '']] = reportsOf([fastTurns(8)]);
  assert.equal(place, 'fast-turns');
  assert.deepEqual(boundsIn(report), [
    'FAIL  64 at once: CPU/turn(durable) <= CPU/turn(empty) + 1.5 x CPU/turn(bare): 8.00 against 4.00 + 1.5 x 2.00 = 7.00 ms, 1.14 x',
  ]);
  const [[, within] = ['', '']] = reportsOf([fastTurns(7)]);
  assert.match(boundsIn(within).join('\n'), /^PASS /);
});

test('a scenario that was not measured leaves its place alone', () => {
  const places = (measured: Measured[]): string[] => reportsOf(measured).map(([place]) => place);
  const others = SCENARIOS.filter(({ place }) => place !== 'fast-turns');
  assert.deepEqual(places([fastTurns(7)]), ['fast-turns']);
  assert.deepEqual(
    places([...others.map((scenario) => ({ scenario, rounds: [] })), fastTurns(7)]),
    ['fast-turns', 'slow-turns', 'observations'],
  );
});
