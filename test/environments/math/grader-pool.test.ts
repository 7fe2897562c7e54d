import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test, type TestContext } from 'node:test';
import type { Comparison } from '../../../src/environments/math/grader-process.js';
import type { GraderPool } from '../../../src/environments/math/grader-pool.js';
import { isRunning } from '../../../lab/bed/process-tree.js';
import { poolFor, scripted } from './grader-fixture.js';
import { faultOf } from '../../harness/fault-of.js';

const signal = new AbortController().signal;

interface Setting {
  max_processes?: number;
  deadline_ms?: number;
  start_timeout_ms?: number;
  start?: string;
  /** Where no grader is installed at first; true once it is. */
  gate?: () => boolean;
  install?: () => Promise<void>;
}

interface Stand {
  pool: GraderPool;
  folder: string;
  check: (answer: string, signal?: AbortSignal) => Promise<Comparison>;
  /** All processes that were started. */
  pids: () => number[];
}

function stand(
  t: TestContext,
  { start = 'ready', gate = () => true, ...options }: Setting = {},
): Stand {
  const folder = mkdtempSync(path.join(tmpdir(), 'grader-pool-'));
  t.after(() => {
    rmSync(folder, { recursive: true });
  });
  const log = path.join(folder, 'started');
  const pool = poolFor(t, {
    max_processes: 1,
    deadline_ms: 30_000,
    start_timeout_ms: 120_000,
    command: () => (gate() ? scripted(log, start)() : null),
    ...options,
  });
  return {
    pool,
    folder,
    check: (answer, given = signal) => pool.compare({ gold: 'g', answer }, given),
    pids: () => (existsSync(log) ? readFileSync(log, 'utf8').trim().split('\n').map(Number) : []),
  };
}

describe('the grader pool', () => {
  test('starts nothing before the first check and keeps its process for the next', async (t) => {
    const { check, pids } = stand(t, { max_processes: 4 });
    assert.deepEqual(pids(), []);
    for (let i = 0; i < 5; i++) assert.equal((await check('good')).score, 1);
    assert.equal(pids().length, 1);
  });

  test('starts no more processes than it may, and answers everybody', async (t) => {
    const { check, pids } = stand(t, { max_processes: 2 });
    const answers = await Promise.all(Array.from({ length: 9 }, () => check('wait 300')));
    assert.equal(answers.length, 9);
    assert.equal(pids().length, 2);
  });

  test('serves the line in the order of arrival', async (t) => {
    const { check } = stand(t);
    const order: number[] = [];
    await Promise.all([0, 1, 2, 3, 4].map((i) => check('wait 5').then(() => order.push(i))));
    assert.deepEqual(order, [0, 1, 2, 3, 4]);
  });

  for (const once of ['crash-once', 'hang-once']) {
    test(`tries a check again in another process after a ${once.replace('-once', '')}`, async (t) => {
      const { check, pids, folder } = stand(t, { deadline_ms: 1000 });
      const { score, extracted_answer } = await check(`${once} ${path.join(folder, 'flag')}`);
      assert.equal(score, 1);
      assert.deepEqual([extracted_answer, pids().length], [String(pids()[1]), 2]);
    });
  }

  for (const [answer, why] of [
    ['crash', /exit code 7/],
    ['hang', /gave no answer within 2 s; then gave no answer within 2 s/],
    ['spin', /gave no answer within 2 s/],
    ['garbage', /answered "Traceback/],
    ['wrong-id', /answered check 2, which was not asked/],
    ['bad-score', /answered .*NaN/],
    ['huge', /line 2: expected at most 1048576 bytes, got more/],
    ['fault', /timeout: comparing took more than 5 s; then timeout/],
  ] as const) {
    test(`makes a fault of a process that does this twice: ${answer}`, async (t) => {
      const isLate = answer === 'hang' || answer === 'spin';
      const { check, pids } = stand(t, { deadline_ms: isLate ? 2000 : 60_000 });
      const fault = await faultOf(check(answer));
      assert.equal(fault.type, 'EnvironmentRejected');
      assert.match(fault.message, /no verdict on this answer, tried 2 times/);
      assert.match(fault.message, why);
      assert.equal((await check('good')).score, 1, 'the next check finds a fresh process');
      assert.equal(pids().length, 3);
    });
  }

  test('takes no second answer to a check for the answer to the next', async (t) => {
    const { check, pids } = stand(t);
    assert.equal((await check('twice')).score, 1);
    const { extracted_answer } = await check('wait 50');
    assert.equal(extracted_answer, String(pids()[1]));
  });

  test('ends a process that says something between two checks, and the next check has a fresh one', async (t) => {
    const { check, pids, pool } = stand(t);
    await check('twice-later');
    while (pids().some(isRunning)) await sleep(10);
    const { extracted_answer } = await check('twice-later');
    assert.equal(extracted_answer, String(pids()[1]));
    await pool.close();
    assert.deepEqual(pids().map(isRunning), [false, false]);
  });

  test('lets a hanging check hold up others by no more than its deadline, even when it is repeated', async (t) => {
    const { check } = stand(t, { deadline_ms: 3000 });
    await check('good');
    let isOver = false;
    const hanging = faultOf(check('hang')).finally(() => (isOver = true));
    await check('good');
    assert.equal(isOver, false, 'it waited for the repetition, too');
    await hanging;
  });

  test('ends a process that says it was its last check', async (t) => {
    const { check, pids } = stand(t);
    const first = await check('last');
    assert.equal(first.score, 1);
    assert.notEqual((await check('good')).extracted_answer, first.extracted_answer);
    assert.equal(pids().length, 2);
  });

  for (const [start, why] of [
    ['fail', /exit code 1: ModuleNotFoundError: no math_verify/],
    ['garbage', /began with "hello"/],
    ['silent', /was not ready after 0.5 s/],
  ] as const) {
    test(`is unavailable, with the command to type, when processes start like this: ${start}`, async (t) => {
      const start_timeout_ms = start === 'silent' ? 500 : 120_000;
      const { pool, check } = stand(t, { start, start_timeout_ms, max_processes: 2 });
      const faults = await Promise.all([check('good'), check('good'), check('good')].map(faultOf));
      for (const fault of [...faults, await faultOf(pool.health(signal))]) {
        assert.equal(fault.type, 'EnvironmentUnavailable');
        assert.match(fault.message, why);
        assert.match(fault.message, /ROLLOUT_GRADER_PYTHON/);
      }
    });
  }

  test('is unavailable where it is not installed and where its program is not there', async (t) => {
    let tries = 0;
    const install = () => Promise.reject(new Error(`index away ${++tries}`));
    const without = poolFor(t, { command: () => null, install });
    const missing = await faultOf(without.health(signal));
    assert.match(missing.message, /cannot be installed: it needs Python 3.10.*index away 1/);
    assert.deepEqual(await faultOf(without.health(signal)), missing, 'not tried again at once');
    const command = () => ({ program: '/nowhere/python', args: [], env: {} });
    const gone = await faultOf(poolFor(t, { command }).health(signal));
    assert.deepEqual(
      [missing.type, gone.type],
      ['EnvironmentUnavailable', 'EnvironmentUnavailable'],
    );
    assert.match(gone.message, /\/nowhere\/python.*cannot be started/);
  });

  test('is installed by the first check, once for all that wait for it', async (t) => {
    let there = false;
    let installs = 0;
    const { check } = stand(t, {
      gate: () => there,
      install: async () => {
        installs++;
        await sleep(50);
        there = true;
      },
    });
    const scores = await Promise.all(['good', 'good', 'good'].map((one) => check(one)));
    assert.deepEqual([scores.map(({ score }) => score), installs], [[1, 1, 1], 1]);
  });

  test('gives up a check whose signal is aborted, in line and running, and serves the others', async (t) => {
    const { check, pids } = stand(t);
    await check('good');
    const running = new AbortController();
    const waiting = new AbortController();
    const first = check('wait 300', running.signal);
    const second = check('crash', waiting.signal);
    const third = check('good');
    running.abort(new Error('stopped'));
    waiting.abort(new Error('cancelled'));
    await assert.rejects(first, /stopped/);
    await assert.rejects(second, /cancelled/);
    assert.equal((await third).score, 1);
    assert.equal(pids().length, 1, 'the check in line never ran');
    await assert.rejects(check('good', running.signal), /stopped/);
  });

  test('leaves no process, no check and no listener behind when it is closed', async (t) => {
    const { pool, check, pids } = stand(t, { max_processes: 2 });
    await Promise.all([check('wait 50'), check('wait 50')]);
    const open = ['spin', 'hang', 'good'].map((answer) => faultOf(check(answer)));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await pool.close();
    for (const fault of await Promise.all(open)) {
      assert.equal(fault.type, 'EnvironmentUnavailable');
      assert.match(fault.message, /closing/);
    }
    assert.deepEqual(pids().filter(isRunning), []);
    assert.match((await faultOf(check('good'))).message, /closing/);
    await pool.close();
  });
});
