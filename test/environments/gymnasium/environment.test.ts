import assert from 'node:assert/strict';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { ForeignObject } from '../../../src/model/foreign-object.js';
import type {
  Beginning,
  ExactEnvironment,
  TurnAnswer,
} from '../../../src/environments/environment.js';
import { createGymnasium, GymnasiumSettings } from '../../../src/environments/gymnasium/kind.js';
import { sessionOf } from '../../../src/environments/gymnasium/wire.js';
import { textLog } from '../../../src/model/content.js';
import type { GymnasiumOptions, GymnasiumServer } from '../../servers/gymnasium-server.js';
import { startGymnasiumServer } from '../../servers/gymnasium-server.js';
import { faultOf } from '../../harness/fault-of.js';

const { signal } = new AbortController();
const ending = { idempotency_key: 'b/0-0/end-0', signal };
const PROMPT = [{ role: 'user', content: 'Go' }];
const ROW = { answers: ['one', 'two', 'three'], verifier_metadata: { level: 2 } };

interface Played {
  server: GymnasiumServer;
  environment: ExactEnvironment;
  begun: Beginning<ForeignObject>;
  /** Plays a text, from the state that the last step left. */
  say: (text: string, more?: { was_asked?: true }) => Promise<TurnAnswer<ForeignObject>>;
}

async function played(
  t: TestContext,
  { settings = {}, ...options }: GymnasiumOptions & { settings?: Record<string, unknown> } = {},
): Promise<Played> {
  const server = await startGymnasiumServer(options);
  const kind = { kind: 'gymnasium', url: server.url, timeout: '2s', ...settings };
  const environment = createGymnasium(GymnasiumSettings.parse(kind));
  t.after(async () => {
    await environment.close?.();
    await server.stop();
  });
  const begun = await environment.begin!(
    { message_log: PROMPT, metadata: ROW },
    { idempotency_key: 'b/0-0/begin-0', signal },
  );
  assert.ok(begun !== null);
  const log = [...PROMPT, ...begun.messages];
  let { metadata } = begun;
  let turn = 0;
  const say: Played['say'] = async (text, more = {}) => {
    const answer = await environment.step(
      { message_log: [...log, { role: 'assistant', content: text }], metadata },
      { idempotency_key: `b/0-0/${turn}`, signal, ...more },
    );
    turn += 1;
    log.push(
      { role: 'assistant', content: text },
      ...textLog(answer.observation === null ? [] : [answer.observation]),
    );
    metadata = answer.metadata!;
    return answer;
  };
  return { server, environment, begun, say };
}

describe('a gymnasium environment', () => {
  test('is played from reset to the end in one session, whose server sees the row and the texts', async (t) => {
    const { server, environment, begun, say } = await played(t);
    assert.deepEqual(begun.messages, [
      { role: 'user', content: 'Recite.\nSay: one\nSay: two\nSay: three' },
    ]);
    const first = await say('one');
    assert.deepEqual(first.observation, { role: 'user', content: '1 done\n' });
    assert.deepEqual([first.reward, first.terminated, first.truncated], [1, false, false]);
    await say('wrong');
    const last = await say('three');
    assert.equal(last.observation, null, 'nothing is said, as by gymnasium_agent');
    assert.deepEqual([last.reward, last.terminated, last.truncated], [1, true, false]);
    assert.deepEqual(
      server.sessions.map(({ played }) => played),
      [['one', 'wrong', 'three']],
    );
    const params = { input: PROMPT };
    const [reset, step] = server.bodies;
    assert.deepEqual(reset?.body, { ...ROW, responses_create_params: params });
    const { response, ...row } = step?.body ?? {};
    assert.deepEqual(row, { ...ROW, responses_create_params: params });
    assert.ok(response);
    assert.equal(await environment.end!(begun.metadata, ending), false);
    assert.equal(server.bodies.length, 4, 'nothing is closed where the server has no /close');
  });

  test('carries the newest cookie from step to step', async (t) => {
    const { begun, say } = await played(t);
    const cookies = [
      sessionOf(begun.metadata)?.cookies,
      sessionOf((await say('one')).metadata!)?.cookies,
    ];
    assert.notDeepEqual(cookies[0], cookies[1]);
    assert.deepEqual(Object.keys(cookies[1] ?? {}), ['Recital___recital']);
  });

  test('is truncated by its server, and by max_steps', async (t) => {
    const byServer = await played(t, { truncate_at: 1 });
    assert.equal((await byServer.say('one')).truncated, true);
    const bySteps = await played(t, { settings: { max_steps: 2 } });
    assert.equal((await bySteps.say('one')).truncated, false);
    assert.equal((await bySteps.say('two')).truncated, true);
    const ended = await played(t, { settings: { max_steps: 3 } });
    for (const text of ['one', 'two']) await ended.say(text);
    const { terminated, truncated } = await ended.say('three');
    assert.deepEqual([terminated, truncated], [true, false]);
  });

  test('is closed where its server says so, as often as one likes', async (t) => {
    const { server, environment, begun } = await played(t, { explicit_close: true });
    assert.equal(await environment.end!(begun.metadata, ending), true);
    assert.equal(await environment.end!(begun.metadata, ending), true);
    assert.equal(server.sessions[0]?.closes, 2);
    assert.equal(await environment.end!({}, ending), false, 'a sample without a session');
  });

  test('names its steps in each deployment in another way', async (t) => {
    const server = await startGymnasiumServer({ step_idempotency: true });
    const kind = { kind: 'gymnasium', url: server.url, timeout: '2s' };
    const environment = createGymnasium(GymnasiumSettings.parse(kind));
    t.after(async () => {
      await environment.close?.();
      await server.stop();
    });
    for (const deployment of ['aa', 'bb']) {
      const names = (idempotency_key: string) => ({ idempotency_key, deployment, signal });
      const sample = { message_log: PROMPT, metadata: ROW };
      const begun = await environment.begin!(sample, names('b/0-0/begin-0'));
      const log = [...PROMPT, ...(begun?.messages ?? []), { role: 'assistant', content: 'one' }];
      const turn = { message_log: log, metadata: begun?.metadata ?? {} };
      assert.equal((await environment.step(turn, names('b/0-0/0'))).reward, 1);
    }
    assert.deepEqual(
      server.sessions.map(({ played }) => played),
      [['one'], ['one']],
    );
    const ids = server.bodies.flatMap(({ body }) => body['_ng_step_request_id'] ?? []);
    assert.equal(new Set(ids).size, 2);
  });

  test('whose step was cut after it was played is answered again by its request id', async (t) => {
    const { server, say } = await played(t, { step_idempotency: true });
    server.trouble.push('cut_after');
    assert.equal((await faultOf(say('one'))).type, 'EnvironmentUnavailable');
    assert.equal((await say('one', { was_asked: true })).reward, 1);
    const { played: texts, repeated } = server.sessions[0]!;
    assert.deepEqual([texts, repeated], [['one'], ['one']]);
    assert.equal((await say('two')).reward, 1, 'the next step has another id');
  });

  for (const cut of ['cut_after', 'cut_before'] as const) {
    test(`without request ids has lost a step that was ${cut.replace('_', ' ')} it was played`, async (t) => {
      const { server, say } = await played(t);
      server.trouble.push(cut);
      const fault = await faultOf(say('one'));
      assert.deepEqual([fault.type, fault.retryable], ['EnvironmentStateLost', false]);
      assert.match(fault.message, /POST .*\/step failed: .*may have taken this step/);
    });
  }

  test('without request ids does not send again what an earlier attempt may have sent', async (t) => {
    const { server, say } = await played(t);
    const fault = await faultOf(say('one', { was_asked: true }));
    assert.equal(fault.type, 'EnvironmentStateLost');
    assert.deepEqual(server.sessions[0]?.played, []);
  });

  for (const unknown of ['key_error', 'detail', 'no_active_episode'] as const) {
    test(`that answers ${unknown} after a restart has lost its session`, async (t) => {
      const { server, say } = await played(t, { unknown, step_idempotency: true });
      await say('one');
      await server.stop();
      assert.equal((await faultOf(say('two'))).type, 'EnvironmentUnavailable', 'while it is down');
      await server.start();
      const fault = await faultOf(say('two'));
      assert.equal(fault.type, 'EnvironmentStateLost');
      assert.match(fault.message, /its session is lost/);
    });
  }

  test('that is overloaded is asked again; one that rejects a step is not', async (t) => {
    const { server, say } = await played(t);
    server.trouble.push(
      { status: 503, body: 'busy' },
      { status: 400, body: { detail: 'No action' } },
    );
    assert.equal((await faultOf(say('one'))).type, 'EnvironmentUnavailable');
    assert.equal((await faultOf(say('one'))).type, 'EnvironmentRejected');
  });

  test('takes a boolean for a reward', async (t) => {
    const { server, say } = await played(t);
    server.trouble.push({ status: 200, body: { observation: 'x', reward: true } });
    assert.equal((await say('one')).reward, 1);
  });

  test('refuses an answer without a reward, and one with a reward that is no number', async (t) => {
    const { server, say } = await played(t);
    for (const body of [{ observation: 'x' }, { observation: 'x', reward: '1' }]) {
      server.trouble.push({ status: 200, body });
      const fault = await faultOf(say('one'));
      assert.equal(fault.type, 'EnvironmentRejected');
      assert.match(fault.message, /reward: expected a finite number/);
    }
  });

  test('needs the session that its reset opened', async (t) => {
    const { environment } = await played(t);
    const input = { message_log: PROMPT, metadata: ROW };
    const fault = await faultOf(environment.step(input, { idempotency_key: 'k', signal }));
    assert.equal(fault.type, 'EnvironmentRejected');
    assert.match(fault.message, /needs the session that \/reset opened/);
  });

  test('is up if anything answers, and not without a listener', async (t) => {
    const { server, environment } = await played(t);
    await environment.health!(signal);
    await server.stop();
    assert.equal((await faultOf(environment.health!(signal))).type, 'EnvironmentUnavailable');
  });

  test('has settings that are strict', () => {
    const url = 'http://127.0.0.1:1';
    const { timeout, max_steps } = GymnasiumSettings.parse({ kind: 'gymnasium', url });
    assert.deepEqual([timeout, max_steps], ['5m', 10]);
    for (const wrong of [{ max_steps: 0 }, { url: 'x' }, { steps: 3 }])
      assert.equal(
        GymnasiumSettings.safeParse({ kind: 'gymnasium', url, ...wrong }).success,
        false,
      );
  });
});
