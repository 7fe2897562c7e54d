import assert from 'node:assert/strict';
import { appendFile } from 'node:fs/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Environment, Metadata, StepContext } from '../../src/environments/environment.js';
import { Fault } from '../../src/model/faults.js';
import { SESSION_KEY } from '../../src/model/session.js';
import type { Bench } from '../fakes/activity-bench.js';
import { AT, activityBench } from '../fakes/activity-bench.js';
import { foldOf } from '../fakes/journal-lines.js';
import type { ScriptedAnswer, ScriptedEnvironment } from '../fakes/scripted-environment.js';
import { scriptedEnvironment } from '../fakes/scripted-environment.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { idsOf, says, scriptedService } from '../fakes/scripted-service.js';
import { BATCH, REF, requestOf, sampleOf } from '../fakes/temporary-store.js';

/** An environment with sessions: it numbers them, and says which it ended. */
interface Sessions extends ScriptedEnvironment {
  begun: { key: string; metadata: Metadata }[];
  ended: unknown[];
  end_keys: string[];
  was_asked: (boolean | undefined)[];
}

interface Given {
  script?: (ScriptedAnswer | Error)[];
  says?: ScriptedReply[];
  /** Of each `begin` and `end`, in order; then they succeed. */
  begin?: Error[];
  end?: Error[];
  /** `begin` says that there are no sessions, and `end` that there is nothing to end. */
  none?: boolean;
  sample?: string;
  request?: Record<string, unknown>;
}

function sessionsOf({ script = [], begin = [], end = [], none = false }: Given): Sessions {
  const scripted = scriptedEnvironment(script, { in_process: false });
  const failures = { begin: [...begin], end: [...end] };
  const begun: Sessions['begun'] = [];
  const ended: unknown[] = [];
  const end_keys: string[] = [];
  const was_asked: (boolean | undefined)[] = [];
  const sessions: Environment = {
    in_process: false,
    steps_once: true,
    begin: ({ metadata }, { idempotency_key: key }) => {
      begun.push({ key, metadata });
      const failure = failures.begin.shift();
      if (failure !== undefined) return Promise.reject(failure);
      if (none) return Promise.resolve(null);
      return Promise.resolve({
        messages: [{ role: 'user', content: 'now' }],
        metadata: { ...metadata, [SESSION_KEY]: begun.length },
      });
    },
    end: (metadata, { idempotency_key }) => {
      ended.push(metadata[SESSION_KEY]);
      end_keys.push(idempotency_key);
      const failure = failures.end.shift();
      return failure === undefined ? Promise.resolve(!none) : Promise.reject(failure);
    },
    step: (input, context: StepContext) => {
      was_asked.push(context.was_asked);
      return scripted.step(input, context);
    },
  };
  return { ...scripted, ...sessions, begun, ended, end_keys, was_asked };
}

async function planned(t: TestContext, given: Given = {}): Promise<Bench & { sessions: Sessions }> {
  const sessions = sessionsOf(given);
  const service = scriptedService(given.says ?? []);
  const bench = await activityBench(t, { environment: sessions, service });
  await bench.store.createBatch({
    batch_id: BATCH,
    request: requestOf({ generation: { model: 'policy' }, ...given.request }),
    samples: [given.sample ?? sampleOf('go', { extra_env_info: { level: 1 } })],
  });
  return { ...bench, sessions };
}

const lost = new Fault({ type: 'EnvironmentStateLost', message: 'restarted' });
const away = new Fault({ type: 'EnvironmentUnavailable', message: 'away' });
const read = (bench: Bench) => bench.elsewhere().readTrajectory(REF);
const kindsOf = async (bench: Bench): Promise<string[]> =>
  (await bench.journalLines()).map(({ kind }) => kind).filter((kind) => kind !== 'claim');
const finish = (bench: Bench, stop_reason: 'failed' | null = 'failed') =>
  bench.result('finishRollout', { rollout: REF, stop_reason, failure: null });

describe('a rollout that starts in an environment with sessions', () => {
  test('has what the session begins with behind its prompt, and its state', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    const { start, extra_env_info, session } = await read(bench);
    assert.deepEqual(start?.prompt.map(({ content }) => content), ['go', 'now']); // prettier-ignore
    assert.deepEqual(extra_env_info, { level: 1, [SESSION_KEY]: 1 });
    assert.deepEqual(bench.sessions.begun, [{ key: 'batch/0-0/begin-0', metadata: { level: 1 } }]);
    assert.equal(session.lives, 1);
  });

  test('opens no other when it is retried, before its prompt is rendered or after', async (t) => {
    const bench = await planned(t);
    const { service } = bench;
    const renderChat = service.renderChat.bind(service);
    bench.service.renderChat = () => Promise.reject(new Fault({ type: 'GenerationUnavailable', message: 'away' })); // prettier-ignore
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

describe('a step in a session', () => {
  const started = async (t: TestContext, given: Given): Promise<Awaited<ReturnType<typeof planned>>> => {
    const bench = await planned(t, { says: [says('hi')], ...given });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    return bench;
  }; // prettier-ignore

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
    bench.service.renderTurn = () => Promise.reject(new Fault({ type: 'GenerationUnavailable', message: 'away' })); // prettier-ignore
    assert.equal((await bench.failure('stepEnvironment', AT)).type, 'GenerationUnavailable');
    bench.service.renderTurn = renderTurn;
    assert.equal((await bench.result('stepEnvironment', AT)).total_reward, 2);
    assert.equal(bench.environment.steps.length, 1);
    assert.deepEqual((await read(bench)).turns[0]?.observation.token_ids, [
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
    zombie.release();
  });

  test('truncates the rollout where the environment says so', async (t) => {
    const bench = await started(t, {});
    const step: Environment['step'] = () =>
      Promise.resolve({
        observations: [{ role: 'user', content: '' }],
        metadata: [null],
        next_stop_strings: null,
        rewards: [1],
        terminateds: [false],
        truncateds: [true],
      });
    bench.sessions.step = step;
    assert.equal((await bench.result('stepEnvironment', AT)).ended, 'truncated');
  });
});

describe('a rollout whose session was lost', () => {
  const losing = async (t: TestContext, given: Given = {}) => {
    const bench = await planned(t, { says: ['a', 'b', 'c'].map((text) => says(text)), script: [lost, lost, lost], ...given }); // prettier-ignore
    return { bench, play: async () => {
      const plan = await bench.result('openRollout', REF);
      await bench.result('generateTurn', AT);
      return { plan, failure: await bench.failure('stepEnvironment', AT) };
    } };
  }; // prettier-ignore

  test('starts over in a new one, once the old one is ended', async (t) => {
    const { bench, play } = await losing(t);
    const { failure } = await play();
    assert.deepEqual(failure, { type: 'EnvironmentStateLost', message: 'restarted', nonRetryable: true }); // prettier-ignore
    const again = await bench.failure('stepEnvironment', AT);
    assert.equal(again.type, 'EnvironmentStateLost', 'a retried step finds the loss');
    assert.equal(bench.environment.steps.length, 1);
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.turn, progress.phase, progress.ended], [0, 'generate', null]);
    assert.deepEqual(bench.sessions.ended, [1]);
    assert.deepEqual(bench.sessions.begun.map(({ key }) => key), ['batch/0-0/begin-0', 'batch/0-0/begin-1']); // prettier-ignore
    const { session, extra_env_info, wasted_tokens } = await read(bench);
    assert.deepEqual([session.lives, session.losses], [2, 1]);
    assert.equal(extra_env_info[SESSION_KEY], 2);
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

describe('the end of a rollout in a session', () => {
  test('ends the session once, whatever ended the rollout', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    await finish(bench);
    await finish(bench);
    assert.deepEqual(bench.sessions.ended, [1]);
    assert.deepEqual(await kindsOf(bench), ['begin', 'begin', 'start', 'close', 'end']);
  });

  test('is what it was where the session could not be ended: that is said as a fault', async (t) => {
    const script = [{ terminated: true, reward: 1 }];
    const bench = await planned(t, { script, says: [says('a')], end: [new Error('gone')] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await bench.result('stepEnvironment', AT);
    const { result } = await finish(bench, null);
    assert.deepEqual([result.stop_reason, result.total_reward], ['terminated', 1]);
    assert.deepEqual((await read(bench)).faults, { EnvironmentUnavailable: 1 });
  });

  test('never makes a step that was sent look as if it was not, wherever it is cut', async (t) => {
    const bench = await planned(t, { says: [says('a')], end: [new Error('gone')] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    const journal = await bench.store.claim(REF, { activity: 'stepEnvironment' });
    await journal.append({ kind: 'step', turn: 0, answer: null });
    await journal.commit();
    await finish(bench);
    const lines = await bench.journalLines();
    const sent = lines.findIndex(({ kind }) => kind === 'step');
    assert.ok(sent > 0 && lines.some(({ kind }) => kind === 'fault'));
    for (let cut = sent + 1; cut <= lines.length; cut++) {
      const { session } = foldOf(lines.slice(0, cut));
      const isKnown = session.asked !== null || session.gone !== null;
      assert.ok(isKnown, `behind ${lines[cut - 1]?.kind ?? ''}`);
    }
  });

  test('waits a while for an environment that is away, and is not written before', async (t) => {
    const bench = await planned(t, { end: [away, away] });
    await bench.result('openRollout', REF);
    const finishing = { rollout: REF, stop_reason: 'stopped' as const, failure: null };
    for (let attempt = 0; attempt < 2; attempt++) {
      const { type, nonRetryable } = await bench.failure('finishRollout', finishing);
      assert.deepEqual([type, nonRetryable], ['EnvironmentUnavailable', false]);
    }
    assert.equal((await read(bench)).end, null);
    await finish(bench);
    assert.deepEqual(bench.sessions.end_keys, Array(3).fill('batch/0-0/end-0'));
    assert.deepEqual((await read(bench)).faults, {});
  });

  test('is written once it has waited a minute: that is said as a fault', async (t) => {
    const bench = await planned(t, { end: [away] });
    await bench.result('openRollout', REF);
    const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
    const { writer } = journal;
    const close = { kind: 'close', session: 'asked', writer, at: Date.now() / 1000 - 61 };
    await appendFile(bench.journalFile(), `${JSON.stringify(close)}\n`);
    journal.release();
    await finish(bench);
    assert.deepEqual((await read(bench)).faults, { EnvironmentUnavailable: 1 });
  });

  test('ends what may have begun, where its beginning was never answered', async (t) => {
    const bench = await planned(t, { begin: [away] });
    await bench.failure('openRollout', REF);
    await finish(bench);
    assert.deepEqual(bench.sessions.end_keys, ['batch/0-0/end-0']);
    assert.deepEqual(bench.sessions.ended, [undefined], 'with the sample’s own state');
  });

  test('is not followed by a turn in a session that may be over', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    // An attempt that died as it ended the session.
    const journal = await bench.store.claim(REF, { activity: 'finishRollout' });
    await journal.append({ kind: 'close', session: 'asked' });
    await journal.commit();
    await bench.result('openRollout', REF);
    assert.equal((await read(bench)).session.lives, 2);
    assert.equal(bench.sessions.begun.length, 2);
  });

  test('leaves what its turns have earned, where an attempt died between the session’s end and its own', async (t) => {
    const script = [{ terminated: true, reward: 1 }];
    const bench = await planned(t, { script, says: [says('a')], end: [away] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await bench.failure('stepEnvironment', AT);
    const { progress } = await bench.result('openRollout', REF);
    assert.deepEqual([progress.ended, progress.total_reward], ['terminated', 1]);
    assert.deepEqual(bench.sessions.end_keys, Array(2).fill('batch/0-0/end-0'));
  });

  test('of an environment without sessions costs nothing, and the rollout goes on where it was', async (t) => {
    const bench = await planned(t, { none: true, says: [says('a')], end: [away] });
    await bench.result('openRollout', REF);
    await bench.result('generateTurn', AT);
    await finish(bench);
    const { faults, session } = await read(bench);
    assert.deepEqual([faults, session.gone], [{}, null]);
    const { progress } = await bench.result('openRollout', REF);
    assert.equal(progress.phase, 'step', 'its first turn is still there');
  });

  test('of one that is started again begins another session', async (t) => {
    const bench = await planned(t);
    await bench.result('openRollout', REF);
    await finish(bench);
    await bench.result('openRollout', REF);
    const { session, end } = await read(bench);
    assert.deepEqual([session.lives, session.losses, end], [2, 0, null]);
    assert.deepEqual(bench.sessions.begun.length, 2);
  });
});
