import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { describe, test } from 'node:test';
import type { Turn } from '../../src/environments/environment.js';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { answer, startServer, type Handler } from './loopback-server.js';
import { faultOf } from '../harness/fault-of.js';

const signal = new AbortController().signal;
const context = { idempotency_key: 'batch-1/3-0/2', signal };
const input: Turn = {
  message_log: [
    { role: 'user', content: 'Zwei + zwei?' },
    { role: 'assistant', content: 'Vier ✓' },
  ],
  metadata: { expected: 4 },
};
const good = {
  observations: [{ role: 'environment', content: 'right' }],
  metadata: [null],
  next_stop_strings: [['</a>']],
  rewards: [0.5],
  terminateds: [true],
  answers: ['4'],
};
const answered = {
  observation: { role: 'environment', content: 'right' },
  metadata: null,
  next_stop_strings: ['</a>'],
  reward: 0.5,
  terminated: true,
  truncated: false,
  answer: '4',
};

async function serve(handler: Handler, timeout_ms = 5000) {
  const { url, received } = await startServer(handler);
  return { url, received, environment: createHttpEnvironment({ url, timeout_ms }) };
}

describe('a step over HTTP', () => {
  test('sends the logs, the metadata and the headers of the protocol', async () => {
    const { environment, received } = await serve(answer(200, good));
    assert.deepEqual(await environment.step(input, context), answered);
    assert.equal(received.length, 1);
    const [request] = received;
    const { message_log, metadata } = input;
    assert.deepEqual(request?.body, { message_log_batch: [message_log], metadata: [metadata] });
    assert.equal(`${request.method} ${request.url}`, 'POST /step');
    assert.equal(request.headers['idempotency-key'], 'batch-1/3-0/2');
    assert.equal(request.headers['rollout-protocol'], '1');
    assert.equal(request.headers['rollout-call-timeout'], '5');
    assert.equal(request.headers['content-type'], 'application/json');
  });

  test('may be rewarded with a boolean, named or not', async () => {
    for (const [rewards, expected] of [
      [[true], 1],
      [
        { a: [true], b: [false] },
        { a: 1, b: 0 },
      ],
    ]) {
      const { environment } = await serve(answer(200, { ...good, rewards }));
      assert.deepEqual((await environment.step(input, context)).reward, expected);
    }
  });

  test('says whose its key is, if its caller has a name', async () => {
    const { environment, received } = await serve(answer(200, good));
    for (const deployment of [undefined, '0123456789ab'])
      await environment.step(input, { ...context, deployment });
    assert.deepEqual(
      received.map(({ headers }) => [headers['idempotency-key'], headers['rollout-deployment']]),
      [
        ['batch-1/3-0/2', undefined],
        ['batch-1/3-0/2', '0123456789ab'],
      ],
    );
  });

  test('says in which play of its batch a turn is played', async () => {
    const { environment, received } = await serve(answer(200, good));
    for (const play of [undefined, 'w1']) await environment.step(input, { ...context, play });
    assert.deepEqual(
      received.map(({ headers }) => headers['rollout-play']),
      [undefined, 'w1'],
    );
  });

  test('appends its paths to a base URL with a path and a slash', async () => {
    const { url, received } = await startServer(answer(200, good));
    await createHttpEnvironment({ url: `${url}/envs/sums/`, timeout_ms: 5000 }).step(
      input,
      context,
    );
    assert.equal(received[0]?.url, '/envs/sums/step');
  });

  test('takes named rewards and flags as Python writes them', async () => {
    const rewards = { correct: [1], format: [0.25] };
    const text = JSON.stringify({ ...good, rewards }).replace('[true]', '[1.0]');
    const { environment } = await serve(answer(200, text));
    const { reward, terminated } = await environment.step(input, context);
    assert.deepEqual([reward, terminated], [{ correct: 1, format: 0.25 }, true]);
  });

  test('takes an answer without stop strings and without extracted answers', async () => {
    const { observations, metadata, rewards, terminateds } = good;
    const required = { observations, metadata, rewards, terminateds };
    const { environment } = await serve(answer(200, required));
    const expected = { ...answered, next_stop_strings: null, answer: null };
    assert.deepEqual(await environment.step(input, context), expected);
    // As a Python model writes what it lacks.
    const nothing = { next_stop_strings: null, answers: null, truncateds: null };
    const { environment: python } = await serve(answer(200, { ...required, ...nothing }));
    assert.deepEqual(await python.step(input, context), expected);
  });
});

describe('an error status', () => {
  const error = { type: 'ValueError', message: 'no answer in the metadata' };
  for (const [status, type] of [
    [400, 'EnvironmentRejected'],
    [404, 'EnvironmentRejected'],
    [422, 'EnvironmentRejected'],
    [500, 'EnvironmentFailed'],
    [408, 'EnvironmentUnavailable'],
    [429, 'EnvironmentUnavailable'],
    [502, 'EnvironmentUnavailable'],
    [503, 'EnvironmentUnavailable'],
    [504, 'EnvironmentUnavailable'],
  ] as const) {
    test(`${status} is ${type} with the environment's type and message`, async () => {
      const { environment, url } = await serve(answer(status, { error }));
      const fault = await faultOf(environment.step(input, context));
      assert.equal(fault.type, type);
      assert.equal(
        fault.message,
        `POST ${url}/step answered ${status}: ValueError: no answer in the metadata`,
      );
      assert.equal(fault.at, url);
    });
  }

  test('with a body of another shape shows the body, cut', async () => {
    const detail = await serve(answer(422, '{"detail":"field required"}'));
    assert.match(
      (await faultOf(detail.environment.step(input, context))).message,
      /answered 422: \{"detail":"field required"\}$/,
    );
    const long = await serve(answer(500, 'x'.repeat(10_000)));
    const { message } = await faultOf(long.environment.step(input, context));
    assert.ok(message.length < 2100 && message.endsWith('x…'));
    const empty = await serve(answer(502, ''));
    const fault = await faultOf(empty.environment.step(input, context));
    assert.match(fault.message, /answered 502: no error body$/);
  });

  test('hands on when to try again, at most a minute', async () => {
    const wait = async (after: string): Promise<number | null> => {
      const { environment } = await serve((_request, response) => {
        response.writeHead(429, { 'retry-after': after }).end();
      });
      return (await faultOf(environment.step(input, context))).retryAfterMs;
    };
    assert.equal(await wait('3'), 3000);
    assert.equal(await wait('3600'), 60_000);
    assert.equal(await wait('soon'), null);
    const inTenSeconds = await wait(new Date(Date.now() + 10_000).toUTCString());
    assert.ok(inTenSeconds !== null && inTenSeconds > 7000 && inTenSeconds <= 10_000);
  });

  test('of a redirect is a rejection: redirects are not followed', async () => {
    const { environment, received } = await serve((_request, response) => {
      response.writeHead(307, { location: '/elsewhere' }).end();
    });
    assert.equal((await faultOf(environment.step(input, context))).type, 'EnvironmentRejected');
    assert.equal(received.length, 1);
  });
});

describe('an environment that cannot be reached is unavailable', () => {
  test('when the connection is refused, by address and by name', async () => {
    for (const url of ['http://127.0.0.1:1', 'http://localhost:1']) {
      const environment = createHttpEnvironment({ url, timeout_ms: 5000 });
      const fault = await faultOf(environment.step(input, context));
      assert.equal(fault.type, 'EnvironmentUnavailable');
      assert.match(fault.message, /^POST http:\/\/\S+\/step failed: .*ECONNREFUSED/);
      assert.equal(fault.at, url);
    }
  });

  test('when the connection is reset before the answer', async () => {
    const { environment } = await serve((_request, response) => response.destroy());
    const fault = await faultOf(environment.step(input, context));
    assert.equal(fault.type, 'EnvironmentUnavailable');
    assert.match(fault.message, /\/step failed: other side closed/);
  });

  test('when the connection is reset within the answer', async () => {
    const { environment } = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 1000 });
      response.write('{"observations"', () => response.destroy());
    });
    assert.equal((await faultOf(environment.step(input, context))).type, 'EnvironmentUnavailable');
  });

  test('when no answer comes in time', async () => {
    const { environment, url } = await serve(() => undefined, 60);
    const fault = await faultOf(environment.step(input, context));
    assert.equal(fault.type, 'EnvironmentUnavailable');
    assert.equal(fault.message, `POST ${url}/step failed: no answer within 60 ms`);
  });

  test('when the answer begins in time and does not end', async () => {
    const { environment } = await serve((_request, response) => {
      response.writeHead(200);
      response.write('{');
    }, 60);
    const fault = await faultOf(environment.step(input, context));
    assert.match(fault.message, /no answer within 60 ms/);
  });
});

describe('aborting the signal', () => {
  test('closes the connection and throws the reason of the signal', async () => {
    const abort = new AbortController();
    const reason = new Error('the rollout was stopped');
    let closed: Promise<unknown> | undefined;
    const { environment } = await serve((_request, response) => {
      closed = once(response, 'close');
      abort.abort(reason);
    });
    await assert.rejects(environment.step(input, { ...context, signal: abort.signal }), reason);
    assert.ok(closed !== undefined, 'the request arrived');
    await closed;
  });

  test('beforehand sends nothing', async () => {
    const { environment, received } = await serve(answer(200, good));
    const reason = new Error('too late');
    const aborted = AbortSignal.abort(reason);
    await assert.rejects(environment.step(input, { ...context, signal: aborted }), reason);
    assert.equal(received.length, 0);
  });

  test('afterwards changes nothing, and no listener is left on it', async () => {
    const abort = new AbortController();
    const { environment } = await serve(answer(200, good));
    await environment.step(input, { ...context, signal: abort.signal });
    assert.deepEqual(getEventListeners(abort.signal, 'abort'), []);
    abort.abort();
  });
});

describe('metrics over HTTP', () => {
  const rollouts = [
    {
      message_log: [{ role: 'user', content: 'q' }],
      total_reward: 1,
      rewards: { a: 1 },
      extra_env_info: {},
    },
  ];

  test('are asked for with the finished rollouts', async () => {
    const { environment, received } = await serve(answer(200, { accuracy: 0.5 }));
    assert.deepEqual(await environment.globalPostProcessAndMetrics(rollouts, signal), {
      accuracy: 0.5,
    });
    assert.equal(received[0]?.url, '/global_post_process_and_metrics');
    assert.deepEqual(received[0].body, { rollouts });
    assert.equal(received[0].headers['rollout-protocol'], '1');
  });

  test('are null where the environment has none: 404 or null', async () => {
    for (const handler of [answer(404, { detail: 'Not Found' }), answer(200, 'null')]) {
      const { environment } = await serve(handler);
      assert.equal(await environment.globalPostProcessAndMetrics(rollouts, signal), null);
    }
  });

  test('are rejected when they are not numbers', async () => {
    const { environment } = await serve(answer(200, { accuracy: 'high' }));
    const fault = await faultOf(environment.globalPostProcessAndMetrics(rollouts, signal));
    assert.equal(fault.type, 'EnvironmentRejected');
    assert.match(fault.message, /accuracy: expected number, got "high"/);
  });
});

test('health resolves on 2xx and is a fault otherwise', async () => {
  const { environment, received } = await serve(answer(200, { status: 'ok' }));
  await environment.health(signal);
  assert.equal(`${received[0]?.method} ${received[0]?.url}`, 'GET /health');
  const ill = await serve(answer(503, { error: { type: 'Loading', message: 'index' } }));
  const fault = await faultOf(ill.environment.health(signal));
  assert.equal(fault.type, 'EnvironmentUnavailable');
  assert.match(fault.message, /\/health answered 503: Loading: index/);
});
