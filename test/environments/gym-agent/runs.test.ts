import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { ProgramStart } from '../../../src/environments/environment.js';
import { createAgents } from '../../../src/environments/gym-agent/agents.js';
import { eventually } from '../../../lab/bed/waiting.js';
import { endedRun } from '../../fakes/ended-run.js';
import { answer, type Handler, startServer } from '../loopback-server.js';

const { signal } = new AbortController();
const BODY = '{"_ng_task_index":3,"_ng_rollout_index":1}';
const KEY = 'drk_0123456789abcdef';

function agentsAt(t: TestContext, url: string) {
  const limits = { timeout_ms: 60_000, max_answer_bytes: 1_000_000 };
  const agents = createAgents({ head_server: null, agents: { a: url }, ...limits });
  t.after(agents.close);
  return agents;
}

/** Rows without a reward get one, beside what their agent says. */
const echoing =
  (more: object = {}): Handler =>
  (request, response) => {
    answer(200, { ...(request.body as object | null), reward: 1, ...more })(request, response);
  };

describe('a run whose model is this policy', () => {
  const runAt = async (t: TestContext, { body = BODY, more = {} } = {}) => {
    const { url, received } = await startServer(echoing(more));
    const { result } = await endedRun(agentsAt(t, url), { body, key: KEY });
    return { sent: received.at(-1)?.body, answered: JSON.parse(result?.text ?? '') as unknown };
  };

  test('has the key of its calls as id of the rollout, and no other row has one', async (t) => {
    const { sent } = await runAt(t);
    assert.deepEqual(sent, { ...(JSON.parse(BODY) as object), _ng_rollout_id: KEY });
    const { url, received } = await startServer(echoing());
    await endedRun(agentsAt(t, url), { body: BODY });
    assert.deepEqual(received.at(-1)?.body, JSON.parse(BODY));
  });

  test('answers without the key, wherever its agent has written it', async (t) => {
    const calls = [{ url: `http://model/ng-rollout/${KEY}/v1` }, { note: `"${KEY}"` }];
    const { answered } = await runAt(t, { more: { calls } });
    assert.deepEqual(answered, {
      ...(JSON.parse(BODY) as object),
      reward: 1,
      calls: [{ url: 'http://model/ng-rollout/3-1/v1' }, { note: '"3-1"' }],
    });
  });

  test('answers with the id that its row had before', async (t) => {
    const body = '{"_ng_rollout_id":"mine"}';
    const { url } = await startServer((request, response) => {
      const row = JSON.stringify(request.body);
      answer(200, row.replace('{', '{"reward":1,"big":9007199254740993,'))(request, response);
    });
    const { result } = await endedRun(agentsAt(t, url), { body, key: KEY });
    assert.match(result?.text ?? '', /"_ng_rollout_id":"mine"/);
    assert.match(result?.text ?? '', /^\{"reward":1,"big":9007199254740993,/);
    assert.ok(result?.text.includes(KEY) === false);
  });
});

describe('a run in progress', () => {
  /** Its agent answers when the test says. */
  const begun = async (t: TestContext) => {
    const held: ServerResponse[] = [];
    const { url } = await startServer((request, response) => {
      if (request.method === 'GET') response.end();
      else held.push(response);
    });
    const agents = agentsAt(t, url);
    const attempt = new AbortController();
    const start: ProgramStart = {
      task: {
        ...{ base_url: '', key: '', prompt: '', message_log: [] },
        metadata: { agent: 'a', task_index: 3, rollout_index: 1, row: BODY },
      },
      serve: () => undefined,
      over: () => Promise.resolve(),
      signal: attempt.signal,
    };
    assert.deepEqual(await agents.start('run', start), { state: 'running' });
    await eventually('the request', () => held.length > 0);
    const isClosed = () =>
      eventually('the end of the connection', () => held.every(({ destroyed }) => destroyed));
    return {
      ...{ agents, attempt, isClosed },
      wait: () => agents.wait('run', { signal: attempt.signal }),
      answers: () => {
        for (const response of held) response.end('{"reward":1}');
      },
    };
  };

  test('does not outlive its process, which alone waits for it', async (t) => {
    const { agents } = await begun(t);
    assert.equal(agents.outlives, false);
    assert.equal(await agents.wait('another', { signal }), 'gone');
  });

  test('closes its connection when its attempt is aborted, and who waits gets the reason', async (t) => {
    const { attempt, wait, isClosed } = await begun(t);
    const waiting = assert.rejects(wait(), /^Error: enough$/);
    attempt.abort(new Error('enough'));
    await waiting;
    await isClosed();
  });

  test('goes on when somebody waits for it no longer', async (t) => {
    const { agents, wait, answers } = await begun(t);
    const leaver = new AbortController();
    const left = assert.rejects(agents.wait('run', { signal: leaver.signal }), /^Error: later$/);
    leaver.abort(new Error('later'));
    await left;
    answers();
    const state = await wait();
    assert.ok(state !== 'gone' && state.state === 'ended');
    assert.equal(state.result?.reward, 1);
  });

  test('closes its connection when it is stopped, and is gone', async (t) => {
    const { agents, wait, isClosed } = await begun(t);
    await agents.stop('run', signal);
    await isClosed();
    assert.equal(await wait(), 'gone');
    await agents.stop('run', signal);
  });
});
