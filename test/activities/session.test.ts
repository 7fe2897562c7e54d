import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { fieldIn } from '../../src/model/foreign-object.js';
import type { Environment } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import { SESSION_KEY } from '../../src/model/journal/session.js';
import { keepSecret } from '../../src/platform/secrets.js';
import { AT } from '../fakes/activity-bench.js';
import { idsOf, says } from '../fakes/scripted-service.js';
import { REF, sampleOf } from '../fakes/temporary-store.js';

import { away, finish, kindsOf, lost, planned, read } from '../fakes/sessions.js';
import type { Given } from '../fakes/sessions.js';
import { plainOf } from '../../src/platform/json/kept.js';
import { turnsOf } from '../../src/model/journal/calls.js';
describe('a rollout that starts in an environment with sessions', () => {
  test('has what the session begins with behind its prompt, and its state', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    const { start, extra_env_info, session } = await read(bench);
    assert.deepEqual(
      start?.prompt.map(({ content }) => content),
      ['go', 'now'],
    );
    assert.deepEqual(plainOf(extra_env_info), { level: 1, [SESSION_KEY]: 1 });
    assert.deepEqual(bench.sessions.begun, [{ key: 'batch/0-0/begin-0', metadata: { level: 1 } }]);
    assert.equal(session.lives, 1);
  });

  test('opens no other when it is retried, before its prompt is rendered or after', async (t) => {
    const bench = await planned(t);
    const { service } = bench;
    const renderChat = service.renderChat.bind(service);
    bench.service.renderChat = () =>
      Promise.reject(new Fault({ type: 'GenerationUnavailable', message: 'away' }));
    assert.equal((await bench.failure('openRollout', REF)).type, 'GenerationUnavailable');
    bench.service.renderChat = renderChat;
    await bench.result('openRollout', REF);
    await bench.result('openRollout', REF);
    assert.equal(bench.sessions.begun.length, 1);
    assert.deepEqual(await kindsOf(bench), ['begin', 'begin', 'fault', 'start']);
  });

  test('is retried while its server is away', async (t) => {
    const bench = await planned(t, { begin: [away] });
    const { type, nonRetryable } = await bench.failure('openRollout', REF);
    assert.deepEqual([type, nonRetryable], ['EnvironmentUnavailable', false]);
    await bench.result('openRollout', REF);
    assert.deepEqual((await read(bench)).faults, { EnvironmentUnavailable: 1 });
  });

  test('fails with its rollout once it has failed as often as the request allows', async (t) => {
    const raised = () => new Fault({ type: 'EnvironmentFailed', message: 'answered 500' });
    const request = { attempts: { environment: 2 } };
    const bench = await planned(t, { begin: [raised(), raised()], request });
    assert.equal((await bench.failure('openRollout', REF)).nonRetryable, false);
    assert.equal((await bench.failure('openRollout', REF)).nonRetryable, true);
  });

  test('fails likewise where its environment throws what is no fault', async (t) => {
    const request = { attempts: { environment: 2 } };
    const bench = await planned(t, {
      begin: [new Error('no room'), new Error('no room')],
      request,
    });
    const { type, message } = await bench.failure('openRollout', REF);
    assert.deepEqual([type, message], ['EnvironmentFailed', 'environment task threw: no room']);
    assert.equal((await bench.failure('openRollout', REF)).nonRetryable, true);
  });

  test('begins with a megabyte of state at most', async (t) => {
    const bench = await planned(t, { first: { state: { text: 'x'.repeat(1.5 * 2 ** 20) } } });
    const { type, message } = await bench.failure('openRollout', REF);
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /expected at most 1048576 bytes of metadata, got 15729\d\d$/);
  });

  test('begins without the secrets of its process', async (t) => {
    const secret = 'key-that-is-echoed-0123456789';
    keepSecret(secret);
    const first = { content: `you said ${secret}`, state: { cookie: `k=${secret}` } };
    const bench = await planned(t, { first });
    await bench.result('openRollout', REF);
    const text = JSON.stringify(await bench.journalLines());
    assert.ok(text.includes('k=[secret]') && !text.includes(secret), text);
  });

  test('cannot have a prompt of token ids continued by a text', async (t) => {
    const message_log = [{ role: 'user', content: 'go', token_ids: [1] }];
    const bench = await planned(t, { sample: sampleOf('', { message_log }) });
    const { type, message } = await bench.failure('openRollout', REF);
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /expected a sample without token_ids/);
    await finish(bench);
    assert.deepEqual(bench.sessions.ended, [1], 'its session is ended though nothing was started');
  });
});

describe('a rollout that is played where it was opened, and loses its session', () => {
  test('starts over in the same activity, in another session', async (t) => {
    const bench = await planned(t, {
      plays_on: true,
      says: [says('one'), says('one'), says('two')],
      script: [lost, {}, { terminated: true, reward: 1 }],
    });
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.ended, progress.total_reward], ['terminated', 1]);
    const { session, faults } = await read(bench);
    assert.deepEqual([session.lives, session.losses, faults], [2, 1, { EnvironmentStateLost: 1 }]);
    assert.deepEqual(
      bench.sessions.begun.map(({ key }) => key),
      ['batch/0-0/begin-0', 'batch/0-0/begin-1'],
    );
    bench.checkPlayed();
  });

  test('fails at the third loss', async (t) => {
    const bench = await planned(t, {
      plays_on: true,
      says: [says('a'), says('a'), says('a')],
      script: [lost, lost, lost],
    });
    const { type, nonRetryable, message } = await bench.failure('openRollout', REF);
    assert.deepEqual([type, nonRetryable], ['EnvironmentStateLost', true]);
    assert.match(message, /its session was lost 3 times, the last time: restarted/);
    bench.checkPlayed();
  });
});

describe('a step in a session', () => {
  const started = async (
    t: TestContext,
    given: Given,
  ): Promise<Awaited<ReturnType<typeof planned>>> => {
    const bench = await planned(t, { says: [says('hi')], ...given });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    return bench;
  };

  test('is in the journal before it is sent, and its answer before anything else', async (t) => {
    const bench = await started(t, { script: [{ content: 'seen', reward: 2 }] });
    await bench.result('stepEnvironment', AT);
    const kinds = (await kindsOf(bench)).slice(-3);
    assert.deepEqual(kinds, ['step', 'step', 'observation']);
    assert.deepEqual(bench.sessions.was_asked, [undefined]);
  });

  test('is not played again where its observation could not be encoded', async (t) => {
    const bench = await started(t, { script: [{ content: 'seen', reward: 2 }] });
    const { service } = bench;
    const renderTurn = service.renderTurn.bind(service);
    bench.service.renderTurn = () =>
      Promise.reject(new Fault({ type: 'GenerationUnavailable', message: 'away' }));
    assert.equal((await bench.failure('stepEnvironment', AT)).type, 'GenerationUnavailable');
    bench.service.renderTurn = renderTurn;
    assert.equal((await bench.result('stepEnvironment', AT)).total_reward, 2);
    assert.equal(bench.environment.steps.length, 1);
    assert.deepEqual(turnsOf(await read(bench))[0]?.observation.token_ids, [
      ...idsOf('environmentseen'),
      7001,
      7002,
    ]);
  });

  test('tells where an earlier attempt sent it and died, and not where it was refused', async (t) => {
    const bench = await started(t, { script: [away, new Error('died'), { terminated: true }] });
    await bench.failure('stepEnvironment', AT);
    // An attempt that died writes no fault: the marker alone is left.
    const journal = await bench.store.claim(REF, { activity: 'stepEnvironment' });
    await journal.append({ kind: 'step', turn: 0, answer: null });
    await journal.commit();
    await bench.failure('stepEnvironment', AT);
    assert.deepEqual(bench.sessions.was_asked, [undefined, true]);
  });

  test('that was taken over meanwhile is not sent', async (t) => {
    const bench = await started(t, { script: [] });
    const zombie = await bench.store.claim(REF, { activity: 'stepEnvironment' });
    await bench.elsewhere().claim(REF, { activity: 'stepEnvironment' });
    await zombie.append({ kind: 'step', turn: 0, answer: null });
    await assert.rejects(zombie.sync(), /another attempt has taken over/);
    await zombie.release();
  });

  test('truncates the rollout where the environment says so', async (t) => {
    const bench = await started(t, {});
    const step: Environment['step'] = () =>
      Promise.resolve({
        observation: { role: 'user', content: '' },
        reward: 1,
        terminated: false,
        truncated: true,
      });
    bench.sessions.step = step;
    assert.equal((await bench.result('stepEnvironment', AT)).ended, 'truncated');
  });
});

describe('a rollout whose session was lost', () => {
  const losing = async (t: TestContext, given: Given = {}) => {
    const bench = await planned(t, {
      says: ['a', 'b', 'c'].map((text) => says(text)),
      script: [lost, lost, lost],
      ...given,
    });
    return {
      bench,
      play: async () => {
        const plan = await bench.result('openRollout', REF);
        await bench.result('generateTurn', AT);
        return { plan, failure: await bench.failure('stepEnvironment', AT) };
      },
    };
  };

  test('starts over in a new one, once the old one is ended', async (t) => {
    const { bench, play } = await losing(t);
    const { failure } = await play();
    assert.deepEqual(failure, {
      type: 'EnvironmentStateLost',
      message: 'restarted',
      nonRetryable: true,
    });
    const again = await bench.failure('stepEnvironment', AT);
    assert.equal(again.type, 'EnvironmentStateLost', 'a retried step finds the loss');
    assert.equal(bench.environment.steps.length, 1);
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.turn, progress.phase, progress.ended], [0, 'generate', null]);
    assert.deepEqual(bench.sessions.ended, [1]);
    assert.deepEqual(
      bench.sessions.begun.map(({ key }) => key),
      ['batch/0-0/begin-0', 'batch/0-0/begin-1'],
    );
    const { session, extra_env_info, wasted_tokens } = await read(bench);
    assert.deepEqual([session.lives, session.losses], [2, 1]);
    assert.equal(fieldIn(extra_env_info, SESSION_KEY), 2);
    assert.equal(wasted_tokens, 1);
  });

  test('fails at the third loss; started again as a batch, it has as many lives again', async (t) => {
    const { bench, play } = await losing(t);
    for (let life = 0; life < 3; life++) await play();
    const failure = await bench.failure('openRollout', REF);
    assert.equal(failure.type, 'EnvironmentStateLost');
    assert.match(failure.message, /its session was lost 3 times, the last time: restarted/);
    assert.equal(failure.nonRetryable, true);
    await finish(bench);
    assert.deepEqual(bench.sessions.ended, [1, 2, 3]);
    await bench.result('openRollout', REF);
    assert.equal((await read(bench)).session.lives, 4);
  });

  test('is held up by no session that cannot be ended', async (t) => {
    const { bench, play } = await losing(t, { end: [away] });
    await play();
    await bench.result('openRollout', REF);
    assert.equal((await read(bench)).session.lives, 2);
  });
});
