import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import type { BatchProgress } from '../../../src/activities/contract.js';
import {
  listTable,
  merged,
  withProgress,
  withResult,
} from '../../../src/client/list/list-table.js';
import type { Run } from '../../../src/client/list/list-table.js';
import { progressOfAll } from '../../../src/client/list/runs.js';

const AT = Date.UTC(2026, 10, 25, 10);
const run = (id: string, fields: Partial<Run> = {}): Run => ({
  id,
  kind: 'batch',
  status: 'RUNNING',
  started_ms: AT,
  ...fields,
});
const stored = (batch_id: string, created_ms: number | null = AT) => ({ batch_id, created_ms });
const style = { columns: Infinity, colour: false };

describe('the list of batches and streams', () => {
  test('has each once, the newest first, and those without a time last', () => {
    const listed = merged(
      [stored('both', AT - 2000), stored('old', AT - 9000), stored('timeless', null)],
      [run('both'), run('new', { started_ms: AT + 1 })],
    );
    assert.deepEqual(
      listed.map(({ id, state, started_ms }) => [id, state, started_ms]),
      [
        ['new', 'running', AT + 1],
        // Its newest start is later.
        ['both', 'running', AT - 2000],
        ['old', 'no_result', AT - 9000],
        ['timeless', 'no_result', null],
      ],
    );
  });

  for (const [status, state] of [
    ['RUNNING', 'running'],
    ['PAUSED', 'paused'],
    ['COMPLETED', 'ended'],
    ['FAILED', 'failed'],
    ['CANCELLED', 'cancelled'],
    ['TERMINATED', 'terminated'],
    ['TIMED_OUT', 'timed out'],
    ['OF_A_NEWER_SERVER', 'running'],
  ] as const)
    test(`says ${state} of status ${status}`, () => {
      assert.equal(merged([], [run('one', { status })])[0]?.state, state);
    });

  const counts = { requested: 8, completed: 6, failed: 1, timed_out: 1, stopped: 0, cancelled: 0 };

  test('takes numbers of a result, and the end with them where Temporal does not have the batch', () => {
    const [lost, failed] = merged(
      [stored('lost')],
      [run('failed', { status: 'FAILED', started_ms: AT - 1 })],
    );
    const result = { counts, metrics: { mean_total_reward: 0.5 } };
    assert.ok(lost !== undefined && failed !== undefined);
    const ended = withResult(lost, result);
    assert.deepEqual(
      [ended.state, ended.valid, ended.failed, ended.requested, ended.mean_reward],
      ['ended', 6, 2, 8, 0.5],
    );
    // Fewer valid rollouts than it had to have.
    assert.equal(withResult(failed, result).state, 'failed');
  });

  test('is a table', () => {
    const [open, ended, stream] = merged(
      [],
      [
        run('step-17'),
        run('step-16', { status: 'COMPLETED', started_ms: AT - 60_000 }),
        run('train', { kind: 'stream', started_ms: AT - 120_000 }),
      ],
    );
    assert.ok(open !== undefined && ended !== undefined && stream !== undefined);
    const progress = { valid: 3, failed: 0, requested: 5000, reward_sum: 1.5 } as BatchProgress;
    const shown = [
      withProgress(open, progress),
      withResult(ended, { counts, metrics: {} }),
      { ...stream, steps: 12 },
    ];
    assert.deepEqual(listTable(shown, { others: 1200, style }), [
      'id       kind    state    started (UTC)          valid  failures  mean reward',
      'step-17  batch   running  2026-11-25 10:00  3 of 5,000         0        0.500',
      'step-16  batch   ended    2026-11-25 09:59      6 of 8         2            -',
      'train    stream  running  2026-11-25 09:58    12 steps         -            -',
      '1,200 older ones: --limit N shows more',
    ]);
    assert.deepEqual(listTable([], { others: 0, style }), ['no batches and no streams']);
  });
});

describe('the progress of many batches', () => {
  /** Batches `here-…` answer; the others never do, as without a worker. */
  const asked: string[] = [];
  let [open, most] = [0, 0];
  const query = (id: string): Promise<unknown> => {
    asked.push(id);
    return id.startsWith('here') ? Promise.resolve({ valid: 1 }) : new Promise(() => undefined);
  };
  const client = { workflow: { getHandle: (id: string) => ({ query: () => query(id) }) } };
  const within = async <T>(ms: number, call: () => Promise<T>): Promise<T> => {
    most = Math.max(most, ++open);
    const late = sleep(ms).then(() => Promise.reject(new Error('late')));
    return await Promise.race([call(), late]).finally(() => open--);
  };
  const server = { client, within } as unknown as Parameters<typeof progressOfAll>[0];

  test('is asked at once, of a few at a time, and those that are silent take one limit together', async () => {
    const ids = [...Array(8).keys()].flatMap((n) => [
      `here-${n}`,
      ...Array.from({ length: 9 }, () => `gone-${n}`),
    ]);
    const found = await progressOfAll({ ...server, limit_ms: { one: 100, all: 2000 } }, ids);
    assert.ok(most > 8 && most <= 16, `${most} at once`);
    assert.ok(found.size > 2 && asked.length < ids.length + 1, `${found.size} of ${asked.length}`);
    assert.ok([...found.keys()].every((id) => id.startsWith('here')));
  });
});
