import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ApplicationFailure } from '@temporalio/common';
import { z } from 'zod';
import { createRunAttempt } from '../../src/activities/attempt.js';
import { toFailure } from '../../src/activities/failure.js';
import { waitIn } from '../../src/activities/waits.js';
import { Fault } from '../../src/model/faults.js';
import { keepSecret } from '../../src/platform/secrets.js';
import type { AttemptResult } from '../fakes/activity-bench.js';
import { AT, activityBench, mockAttempt } from '../fakes/activity-bench.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import { says, scriptedService } from '../fakes/scripted-service.js';

const away = (message = 'connection refused') =>
  new Fault({ type: 'GenerationUnavailable', message, at: 'http://replica/v1' });

/** The details that the server keeps for the next attempt. */
const lastHeartbeat = ({ heartbeats }: AttemptResult<unknown>): unknown => heartbeats.at(-1);

describe('an engine that is away', () => {
  test('is reported to the workflow by the first attempt that waits, when twice as many wait, and once when it is back', async (t) => {
    const aways = [away(), away('still'), away('third'), away('fourth')];
    const service = scriptedService([...aways.map((then) => ({ then })), says('here')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const told: AttemptResult<unknown>['waiting'] = [];
    let before: unknown;
    for (let number = 1; number <= 5; number++) {
      const ran = await bench.run('generateTurn', { input: AT, number, heartbeatDetails: before });
      before = lastHeartbeat(ran);
      told.push(...ran.waiting);
    }
    const { since = '' } = told[0] ?? assert.fail();
    assert.match(since, /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/);
    const at = { service: 'http://replica/v1', call: 'generation service default', since };
    assert.deepEqual(told, [
      { ...at, message: 'connection refused', tries: 1 },
      { ...at, message: 'still', tries: 2 },
      { ...at, message: 'fourth', tries: 4 },
      null,
    ]);
    bench.checkPlayed();
  });

  test('counts the tries since the rollout last came further, whichever attempt they were of', async (t) => {
    const service = scriptedService([
      { then: away() },
      { ...says('ab'), then: away() },
      { then: away() },
    ]);
    const bench = await activityBench(t, { service });
    await bench.started();
    for (let n = 0; n < 3; n++) await bench.run('generateTurn', { input: AT });
    const lines = await bench.journalLines();
    const tries = lines.flatMap((line) => (line.kind === 'fault' ? [line.waited?.tries] : []));
    assert.deepEqual(tries, [1, 1, 2]);
  });

  test('is reported for environments, too', async (t) => {
    const fault = new Fault({ type: 'EnvironmentUnavailable', message: '503', at: 'http://env' });
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service, environment: scriptedEnvironment([fault]) });
    await bench.started();
    const { waiting } = await bench.run('playTurns', { input: AT });
    const [{ since = '', ...told } = assert.fail(), ...more] = waiting.map(
      (one) => one ?? undefined,
    );
    assert.match(since, / UTC$/);
    const call = { call: 'environment task', tries: 1 };
    assert.deepEqual([told, ...more], [{ service: 'http://env', message: '503', ...call }]);
  });

  test('is reported while it does not answer, and when it answers again', async (t) => {
    const environment = scriptedEnvironment([{ terminated: true }]);
    const step = environment.step.bind(environment);
    environment.step = async (...given) => {
      await new Promise((resolve) => setTimeout(resolve, 900));
      return await step(...given);
    };
    const service = scriptedService([says('x')]);
    const bench = await activityBench(t, { service, environment, silent_ms: 300 });
    await bench.started();
    const { waiting } = await bench.run('playTurns', { input: AT });
    const [first, ...more] = waiting;
    const { call, message } = first ?? assert.fail();
    assert.deepEqual([call, message], ['environment task', 'no answer yet']);
    assert.deepEqual(more, [null]);
  });

  test('is reported with why the engine is silent, also in the heartbeat', async (t) => {
    for (const [asleep, paused, says_why] of [
      [true, true, /^the engine is asleep, until somebody wakes it/],
      [false, true, /^the engine is paused$/],
      [false, false, /^no answer yet$/],
    ] as const) {
      const service = scriptedService([says('x')], { isPaused: () => paused });
      service.isAsleep = () => Promise.resolve(asleep);
      const generate = service.generate.bind(service);
      service.generate = async (...given) => {
        await new Promise((resolve) => setTimeout(resolve, 900));
        return await generate(...given);
      };
      const bench = await activityBench(t, { service, silent_ms: 300 });
      await bench.started();
      const { waiting, heartbeats } = await bench.run('generateTurn', { input: AT });
      const [first, ...more] = waiting;
      assert.equal(first?.call, 'generation service default');
      assert.match(first.message, says_why);
      assert.deepEqual(more, [null]);
      assert.ok(heartbeats.some((one) => waitIn(one)?.message === first.message));
    }
  });

  test('is reported while a batch is planned', async (t) => {
    const service = scriptedService([], { describe: () => Promise.reject(away()) });
    const bench = await activityBench(t, { service });
    const input = {
      samples: [{ message_log: [{ role: 'user', content: 'x' }], task_name: 'task' }],
    };
    const { waiting } = await bench.run('planBatch', { input, workflow_id: 'batch' });
    assert.equal(waiting.length, 1);
  });

  test('is in the heartbeat of the attempt that failed, and no longer in those of the next', async () => {
    const runAttempt = createRunAttempt({ signalWaiting: () => Promise.resolve() });
    const first = mockAttempt({});
    let last: unknown;
    first.on('heartbeat', (details: unknown) => (last = structuredClone(details)));
    await assert.rejects(first.run(() => runAttempt(() => Promise.reject(away()))));
    assert.equal(waitIn(last)?.message, 'connection refused');
    const second = mockAttempt({ heartbeatDetails: last, heartbeat_timeout_ms: 15 });
    let then: unknown;
    second.on('heartbeat', (details: unknown) => (then = structuredClone(details)));
    await second.run(() => runAttempt(() => sleep(100)));
    assert.notEqual(then, undefined);
    assert.equal(waitIn(then), null);
  });

  test('is reported in a short text', async (t) => {
    const service = scriptedService([{ then: away('x'.repeat(10_000)) }]);
    const bench = await activityBench(t, { service });
    await bench.started();
    const { waiting } = await bench.run('generateTurn', { input: AT });
    assert.equal(waiting[0]?.message.length, 300);
  });

  test('is not reported if nothing waits', async (t) => {
    const rejected = new Fault({ type: 'GenerationRejected', message: 'no' });
    const service = scriptedService([{ then: rejected }, says('x')]);
    const bench = await activityBench(t, { service });
    await bench.started();
    assert.deepEqual((await bench.run('generateTurn', { input: AT })).waiting, []);
    assert.deepEqual((await bench.run('generateTurn', { input: AT })).waiting, []);
  });
});

describe('heartbeats', () => {
  test('continue while an engine is silent', async (t) => {
    const bench = await activityBench(t, {
      service: scriptedService([{ then: 'silence' }]),
      deployment: { heartbeat_timeout_ms: 50 },
    });
    await bench.started();
    const { heartbeats } = await bench.run('generateTurn', {
      input: AT,
      cancelling: (cancel) => setTimeout(cancel, 2000),
    });
    assert.ok(heartbeats.length >= 5, `${heartbeats.length} heartbeats in 2 s, one due each 17`);
  });

  test('end with the attempt', async (t) => {
    const bench = await activityBench(t, {
      service: scriptedService([says('x')]),
      deployment: { heartbeat_timeout_ms: 25 },
    });
    await bench.started();
    const { heartbeats } = await bench.run('generateTurn', { input: AT });
    const { length } = heartbeats;
    await new Promise((resolve) => setTimeout(resolve, 50));
    assert.equal(heartbeats.length, length);
  });

  test('carry a checkpoint from attempt to attempt', async () => {
    const Row = z.object({ row: z.int() });
    const runAttempt = createRunAttempt({
      signalWaiting: () => Promise.resolve(),
    });
    const first = mockAttempt({});
    const heartbeats: unknown[] = [];
    first.on('heartbeat', (details: unknown) => heartbeats.push(structuredClone(details)));
    const failing = first.run(() =>
      runAttempt((attempt) => {
        const kept = attempt.keeps(Row);
        assert.equal(kept.get(), null);
        kept.set({ row: 7 });
        return Promise.reject(new Fault({ type: 'StoreFault', message: 'full' }));
      }),
    );
    await assert.rejects(failing);
    const second = mockAttempt({ heartbeatDetails: heartbeats.at(-1) });
    const found = await second.run(() =>
      runAttempt(({ keeps }) =>
        Promise.resolve([keeps(Row).get(), keeps(z.object({ other: z.string() })).get()]),
      ),
    );
    assert.deepEqual(found, [{ row: 7 }, null]);
  });
});

describe('an attempt', () => {
  const runAttempt = createRunAttempt({
    signalWaiting: () => Promise.resolve(),
  });

  test('has its workflow, its number and the time since it was scheduled, whatever the local clock says', async () => {
    const mock = mockAttempt({
      workflow_id: 'batch/3-1',
      number: 4,
      waited_ms: 5000,
    });
    await mock.run(() =>
      runAttempt(({ workflow_id, number, elapsed_ms }) => {
        assert.deepEqual([workflow_id, number], ['batch/3-1', 4]);
        const elapsed = elapsed_ms();
        assert.ok(elapsed >= 5000 && elapsed < 600_000, `${elapsed} ms`);
        return Promise.resolve();
      }),
    );
  });

  const HELD = { service: 'default', message: 'no replica serves', holds: true } as const;

  test('signals that no replica serves, whatever it has waited for before', async () => {
    const told: unknown[] = [];
    const attempt = createRunAttempt({
      signalWaiting: (_, waiting) => Promise.resolve(void told.push(waiting)),
    });
    const refused = { service: 'http://replica/v1', message: 'refused', tries: 4 };
    await mockAttempt({}).run(() =>
      attempt(async ({ reportWaiting }) => {
        for (const waiting of [refused, HELD, HELD, refused, null, null])
          await reportWaiting(waiting);
      }),
    );
    assert.deepEqual(told, [refused, HELD, refused, null]);
  });

  test('does not count the time in which no replica serves, in earlier attempts neither', async () => {
    const first = mockAttempt({});
    const heartbeats: unknown[] = [];
    first.on('heartbeat', (details: unknown) => heartbeats.push(structuredClone(details)));
    const held = { least: 0, most: 0 };
    const failing = first.run(() =>
      runAttempt(async ({ reportWaiting, elapsed_ms }) => {
        const since = performance.now();
        await reportWaiting(HELD);
        const before = { elapsed: elapsed_ms(), now: performance.now() };
        await sleep(300);
        held.least = performance.now() - before.now;
        assert.ok(elapsed_ms() - before.elapsed < held.least - 200, 'while it is held up');
        await reportWaiting(null);
        held.most = performance.now() - since;
        const after = elapsed_ms();
        await sleep(200);
        assert.ok(elapsed_ms() - after >= 199, 'afterwards');
        throw new Error('the worker is lost');
      }),
    );
    await assert.rejects(failing, /the worker is lost/);
    const second = mockAttempt({ heartbeatDetails: heartbeats.at(-1), waited_ms: 60_000 });
    const since = performance.now();
    const elapsed = await second.run(() =>
      runAttempt(({ elapsed_ms }) => Promise.resolve(elapsed_ms())),
    );
    const own = performance.now() - since;
    assert.ok(
      elapsed >= 60_000 - held.most && elapsed <= 60_000 - held.least + own,
      `${elapsed} ms`,
    );
  });
});

describe('a task that was lost', () => {
  const runAttempt = createRunAttempt({ signalWaiting: () => Promise.resolve() });
  const lostAfter = (before: Parameters<typeof mockAttempt>[0]): Promise<number> =>
    mockAttempt(before).run(() => runAttempt(({ lost_ms }) => Promise.resolve(lost_ms)));

  test('has cost the time until the next attempt, if none before it gave a sign', async () => {
    assert.equal(await lostAfter({ number: 2, waited_ms: 60_000 }), 60_000);
    assert.equal(await lostAfter({ number: 1 }), 0);
    const heartbeatDetails = { waiting: 1 };
    assert.equal(await lostAfter({ number: 2, waited_ms: 60_000, heartbeatDetails }), 0);
  });
});

describe('a fault becomes a failure', () => {
  test('of its type and message, without details, since the data is in the journal', () => {
    const failure = toFailure(new Fault({ type: 'GenerationRejected', message: '400: no' }));
    assert.ok(failure instanceof ApplicationFailure);
    assert.deepEqual(
      [failure.type, failure.message, failure.nonRetryable],
      ['GenerationRejected', '400: no', true],
    );
    assert.deepEqual(failure.details ?? [], []);
  });

  test('that is retried when the other side asked for it', () => {
    const fault = new Fault({ type: 'GenerationUnavailable', message: '429', retryAfterMs: 7000 });
    const failure = toFailure(fault);
    assert.ok(failure instanceof ApplicationFailure);
    assert.deepEqual([failure.nonRetryable, failure.nextRetryDelay], [false, 7000]);
  });

  test('and of any other error that quotes what came, the text becomes plain, its causes and trace included', () => {
    const cause = new Error('said \u001b[31mred\u202e');
    const failure = toFailure(new TypeError('bug', { cause }));
    assert.ok(failure instanceof ApplicationFailure);
    assert.deepEqual(
      [failure.type, failure.message, failure.nonRetryable],
      ['TypeError', 'bug: said red�', false],
    );
    assert.doesNotMatch(failure.stack ?? '', /[\u001b\u202e]/);
  });

  test('and an unknown error is stripped of secrets, also in properties that are not shown', () => {
    keepSecret('sk-of-this-test-0123456789');
    const error = new TypeError('header sk-of-this\u200d-test-0123\u001b[31m456789 is wrong');
    const failure = toFailure(error) as ApplicationFailure;
    assert.equal(failure.message, 'header [secret] is wrong');
  });

  test('and an unknown error loses what is secret in its message, its stack and its causes', () => {
    keepSecret('sk-unknown-0123456789');
    const cause = new Error('header Bearer sk-unknown-0123456789');
    const failure = toFailure(new TypeError('sk-unknown-0123456789 is invalid', { cause }));
    assert.ok(failure instanceof ApplicationFailure);
    assert.deepEqual(
      [failure.type, failure.message],
      ['TypeError', '[secret] is invalid: header Bearer [secret]'],
    );
    assert.match(failure.stack ?? '', /attempt\.test\.ts/);
    assert.doesNotMatch(failure.stack ?? '', /sk-unknown/);
  });

  test('and anything else stays what it is: a cancellation, or an error that a mended worker heals', () => {
    for (const error of [new Error('bug'), 'text', undefined])
      assert.equal(toFailure(error), error);
  });
});
