import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { lastSign, mayBeAlive, signOf } from '../../src/temporal/pollers.js';
import { workerFinding } from '../../src/workers/check/check-temporal.js';
import { summaryOf } from '../../src/cli/check.js';

const NOW = Date.UTC(2026, 0, 1);
const time = (age: number) => ({ seconds: String(NOW / 1000 - age) });

const identity = (pid: number): string => `${pid}@gpu-3/run=1-2/store=a/generation=default`;

/** By the ages of workers' last questions and reports, in seconds. */
const signFrom = ({ asked, reported = [] }: { asked: number[]; reported?: number[] }) =>
  signOf(
    {
      pollers: asked.map((age) => ({ lastAccessTime: time(age), identity: identity(age) })),
      reporters: reported.map((age) => ({
        workerHeartbeat: { heartbeatTime: time(age), workerIdentity: identity(age) },
      })),
    } as never,
    NOW,
  );
const judged = (signs: { asked: number[]; reported?: number[] }) =>
  workerFinding(signFrom(signs), { role: 'generation', file: 'their own.yaml' });

const START = "start one with role generation: temporal-rollout worker --config 'their own.yaml'";

describe('a task queue', () => {
  test('has a worker that waits if one reported just now, however long ago it asked for tasks', () => {
    const said = { state: 'ok', what: 'worker 9@gpu-3 was seen 9 s ago (generation)' };
    assert.deepEqual(judged({ asked: [58], reported: [9] }), said);
    assert.deepEqual(judged({ asked: [290, 61], reported: [400, 9] }), said);
    assert.deepEqual(judged({ asked: [9] }), said);
  });

  test('whose worker died within the time of a poll has none, because its reports end', () => {
    assert.deepEqual(judged({ asked: [55], reported: [51] }), {
      state: 'limited',
      what: 'worker 51@gpu-3 was seen 51 s ago; running ones report every 2 s, so it is gone or hangs',
      waits: true,
      remedy: `if it hangs, end it with kill -9: npm start, systemd or Kubernetes starts another. Or ${START}`,
    });
    assert.equal(mayBeAlive(signFrom({ asked: [55], reported: [51] })), false);
  });

  test('of a server without reports is unsure during a poll, and has no worker after it', () => {
    assert.deepEqual(judged({ asked: [55] }), {
      state: 'limited',
      what: 'worker 55@gpu-3 asked for tasks 55 s ago; one that waits asks every 60 s, so it may be gone',
      waits: true,
      remedy: `check again in a minute, or ${START}`,
    });
    assert.equal(mayBeAlive(signFrom({ asked: [61] })), true);
    assert.equal(mayBeAlive(signFrom({ asked: [290, 101] })), false);
    assert.match(
      judged({ asked: [290, 101] }).what,
      /seen 101 s ago; .* every 60 s, so it is gone/,
    );
  });

  test('that nobody asks has none', () => {
    assert.match(judged({ asked: [] }).what, /^no worker waits/);
    assert.equal(mayBeAlive(null), false);
  });

  test('of a server whose clock is ahead was asked just now', () => {
    assert.match(judged({ asked: [-40] }).what, / 0 s ago/);
  });

  test('of a server that takes no reports is judged by polls alone', async () => {
    const seconds = Math.round(Date.now() / 1000) - 30;
    const server = {
      describeTaskQueue: () => Promise.resolve({ pollers: [{ lastAccessTime: { seconds } }] }),
      listWorkers: () => Promise.reject(new Error('12 UNIMPLEMENTED: unknown method ListWorkers')),
    };
    const sign = await lastSign(server as never, {
      namespace: 'default',
      name: 'own',
      type: 'activity',
    });
    assert.equal(sign?.every, 60);
    assert.equal(sign.worker, null);
  });
});

describe('the last line of a check', () => {
  test('says that nothing is broken only if a worker is certainly there for each task queue', () => {
    assert.equal(summaryOf([{ state: 'ok' }]), 'nothing is broken');
    assert.equal(
      summaryOf([{ state: 'ok' }, { state: 'limited' }]),
      'nothing is broken, 1 limited',
    );
    assert.equal(
      summaryOf([{ state: 'ok' }, { state: 'limited', waits: true }]),
      '1 limited: rollouts wait, as no worker is known to run for each task queue',
    );
    assert.equal(summaryOf([{ state: 'broken' }, { state: 'limited' }]), '1 broken, 1 limited');
  });
});
