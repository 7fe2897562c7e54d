/** The figures of `temporal-rollout plan`, from two runs of lab/bench/many. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { figuresOf, postgresIn } from '../../../lab/bench/many/figures.js';
import type { Reading } from '../../../lab/bench/many/readings.js';
import type { ManyRun, Phase } from '../../../lab/bench/many/phases.js';

const ROLLOUTS = 100;
const LOOP = { p50_ms: 0, p99_ms: 0, max_ms: 0, heap_mb: 0, timers: 0 };
/** CPU milliseconds that a run consists of. */
const COST = { rollout: 40, second: 0.5, turn: 6, idle: 20 };

/** A run whose processes take exactly these, `per_token` beside. */
function runOf({ tokens, per_token }: { tokens: number; per_token: number }): ManyRun {
  const turn = COST.turn + tokens * per_token;
  const steps: [Phase['name'], seconds: number, count: number, cpu_ms: number][] = [
    ['starting', 10, ROLLOUTS, (ROLLOUTS * COST.rollout) / 2 + (ROLLOUTS / 2) * 10 * COST.second],
    ['waiting', 20, ROLLOUTS * 20, ROLLOUTS * 20 * COST.second],
    ['first turns', 6, ROLLOUTS, ROLLOUTS * (turn + 6 * COST.second)],
    ['playing', 6, ROLLOUTS, ROLLOUTS * (turn + 6 * COST.second)],
    [
      'ending',
      8,
      ROLLOUTS,
      ROLLOUTS * (COST.rollout / 2 + turn) + (ROLLOUTS / 2) * 8 * COST.second,
    ],
  ];
  const idle = readingOf({ at_ms: 0, cpu_ms: 0, held: 0 });
  let before = idle;
  const phases = steps.map(([name, seconds, count, cpu_ms]): Phase => {
    const after = readingOf({
      at_ms: before.at_ms + seconds * 1000,
      cpu_ms: before.cpu_ms.server + cpu_ms + seconds * COST.idle,
      held: ROLLOUTS,
    });
    const phase = { name, count, before, after, loop: LOOP };
    before = after;
    return phase;
  });
  const flushes = ROLLOUTS * 3 * Math.ceil(tokens / 50);
  return {
    ...{
      rollouts: ROLLOUTS,
      workers: 1,
      turns: 3,
      turn_ms: 6000,
      tokens,
      memory: '1GiB',
      turn_slice: '10m',
      heartbeat_timeout: null,
      limit_ms: 60_000,
    },
    idle,
    idle_cpu_ms: { server: COST.idle, workers: COST.idle, simulator: COST.idle },
    phases,
    histories: {
      batch: { count: 1, events: 30, kb: 5 },
      slice: { count: 2, events: 300, kb: 60 },
      rollout: { count: ROLLOUTS, events: 20, kb: 4 },
    },
    closing_s: 1,
    journals: {
      rollouts: ROLLOUTS,
      turns: ROLLOUTS * 3,
      flushes,
      tokens: ROLLOUTS * 3 * tokens,
      of_flushes: flushes * 150 + ROLLOUTS * 3 * tokens * 17,
      of_turns: ROLLOUTS * 3 * 900,
      of_rollouts: ROLLOUTS * 2000,
    },
    database_mb: 2,
  };
}

/** All parts have had the same. Each rollout beats once in two seconds, and its wait is signalled. */
const readingOf = ({
  at_ms,
  cpu_ms,
  held,
}: {
  at_ms: number;
  cpu_ms: number;
  held: number;
}): Reading => {
  const all = { server: cpu_ms, workers: cpu_ms, simulator: cpu_ms };
  const beats = (at_ms / 1000) * held * 0.5;
  return {
    at_ms,
    cpu_ms: all,
    resident_mb: { server: 0, workers: 200 + held * 0.5, simulator: 0 },
    open_files: { server: 0, workers: 30 + held * 2, simulator: 0 },
    requests: {
      RecordActivityTaskHeartbeat: beats,
      RespondWorkflowTaskCompleted: held * 4,
      PollActivityTaskQueue: at_ms,
      SignalWorkflowExecution: held,
    },
    actions: {
      grpc_RecordActivityTaskHeartbeat: beats,
      command_StartChildWorkflowExecution: held * 2,
      grpc_SignalWorkflowExecution: held,
    },
  };
};

const near = (value: number, expected: number): void => {
  assert.ok(
    Math.abs(value - expected) <= 0.02 * Math.abs(expected),
    `${value}, expected ${expected}`,
  );
};

test('what a rollout, a second in flight, a turn and a token cost are told apart', () => {
  const postgres = { cpu_ms_turn: 1, wal_bytes_turn: 2, turn_s: 3, tokens: 4 };
  const { temporal, worker, journal } = figuresOf({
    whole: runOf({ tokens: 25, per_token: 0 }),
    streamed: runOf({ tokens: 800, per_token: 0.03 }),
    postgres,
    where: 'here',
  });
  near(temporal.cpu_ms_rollout_s, COST.second);
  near(temporal.cpu_ms_turn, COST.turn);
  near(temporal.cpu_ms_rollout, COST.rollout);
  near(worker.cpu_ms_token, (0.03 * 800) / 775);
  near(worker.resident_bytes_rollout, 0.5 * 2 ** 20);
  near(worker.files_rollout, 2);
  assert.equal(temporal.requests_rollout, 4);
  assert.equal(temporal.actions_rollout, 2);
  near(temporal.events_rollout, 20 + 0.02 * 300);
  near(temporal.database_bytes_rollout, 20_000);
  near(journal.bytes_flush, 150);
  near(journal.bytes_token, 17);
  assert.deepEqual([journal.bytes_turn, journal.bytes_rollout], [900, 2000]);
});

test("PostgreSQL's figures are those of slow turns on the page, and a page without them is refused", () => {
  const row =
    '| 128 at once, turns of 3 s    | postgres |  15.82 |       2.69 |    12.99 |          9,927 | 1.16 × |';
  const found = postgresIn(`| head |\n${row.replace('3 s', 'no time')}\n${row}\n`);
  assert.deepEqual(found, { cpu_ms_turn: 2.69, wal_bytes_turn: 9927, turn_s: 3, tokens: 85 });
  assert.throws(
    () => postgresIn('nothing'),
    /expected a row of turns of 3 s in postgres, got none/,
  );
});
