import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { answer, startServer, type Handler } from './loopback-server.js';
import { KeptJson } from '../../src/platform/json/kept.js';

const { signal } = new AbortController();

async function serve(handler: Handler, timeout_ms = 5000) {
  const { url, received } = await startServer(handler);
  return { received, environment: createHttpEnvironment({ url, timeout_ms }) };
}

describe('a session over HTTP', () => {
  const sample = { message_log: [{ role: 'user', content: 'go' }], metadata: { level: 1 } };
  const keyed = (idempotency_key: string) => ({ idempotency_key, signal });

  test('begins with the sample and ends with the state, under keys that every attempt shares', async () => {
    const { environment, received } = await serve(answer(200, { metadata: { handle: 7 } }));
    const begun = await environment.begin?.(sample, keyed('b/0-0/begin-1'));
    assert.deepEqual(begun, { messages: [], metadata: new KeptJson('{"handle":7}') });
    assert.equal(await environment.end?.({ handle: 7 }, keyed('b/0-0/end-1')), true);
    assert.deepEqual(
      received.map(({ url, headers, body }) => [url, headers['idempotency-key'], body]),
      [
        ['/begin', 'b/0-0/begin-1', { session: 'b/0-0/1', ...sample }],
        ['/end', 'b/0-0/end-1', { session: 'b/0-0/1', metadata: { handle: 7 } }],
      ],
    );
  });

  test('has a name that no other deployment’s has, and each call says whose it is', async () => {
    const { environment, received } = await serve(answer(200, {}));
    const names = (idempotency_key: string) => ({ ...keyed(idempotency_key), deployment: 'aa' });
    await environment.begin?.(sample, names('b/0-0/begin-1'));
    await environment.end?.({}, names('b/0-0/end-1'));
    assert.deepEqual(
      received.map(({ headers, body }) => [
        headers['idempotency-key'],
        headers['rollout-deployment'],
        (body as { session: string }).session,
      ]),
      [
        ['b/0-0/begin-1', 'aa', 'b/0-0/1/aa'],
        ['b/0-0/end-1', 'aa', 'b/0-0/1/aa'],
      ],
    );
  });

  test('says with each call how long its caller waits', async () => {
    const { environment, received } = await serve(answer(200, {}), 300_000);
    await environment.begin?.(sample, keyed('b/0-0/begin-1'));
    await environment.end?.({}, keyed('b/0-0/end-1'));
    await environment.globalPostProcessAndMetrics([], signal);
    assert.deepEqual(
      received.map(({ url, headers }) => [url, headers['rollout-call-timeout']]),
      [
        ['/begin', '240'],
        ['/end', '30'],
        ['/global_post_process_and_metrics', '60'],
      ],
    );
  });

  test('keeps the sample’s state where the answer has none, and adds what it says to the prompt', async () => {
    const messages = [{ role: 'user', content: 'now' }];
    const { environment } = await serve(answer(200, { messages }));
    const begun = await environment.begin?.(sample, keyed('b/0-0/begin-0'));
    assert.deepEqual(begun, { messages, metadata: { level: 1 } });
  });

  test('is none where the server answers 404, which is asked once', async () => {
    const { environment, received } = await serve(answer(404, {}));
    assert.equal(environment.mayBegin!(), true);
    for (let i = 0; i < 3; i++) {
      assert.equal(await environment.begin?.(sample, keyed('b/0-0/begin-0')), null);
      assert.equal(await environment.end?.({}, keyed('b/0-0/end-0')), false);
      assert.equal(environment.mayBegin!(), false);
    }
    assert.deepEqual(
      received.map(({ url }) => url),
      ['/begin', '/end'],
    );
  });

  test('that is answered with anything else is refused, by field', async () => {
    const { environment } = await serve(answer(200, { metadata: [] }));
    await assert.rejects(environment.begin!(sample, keyed('b/0-0/begin-0')), {
      name: 'EnvironmentRejected',
      message: /POST .*\/begin answered: metadata: /,
    });
  });
});
