import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import type { ForeignObject } from '../../src/model/foreign-object.js';
import type { ExactEnvironment, TurnAnswer } from '../../src/environments/environment.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { keepSecret } from '../../src/platform/secrets.js';
import { bareContext } from '../fakes/environment-context.js';
import { answer, startServer, type Handler } from './loopback-server.js';
import { processorTime_ms } from '../harness/processor-time.js';
import { faultOf } from '../harness/fault-of.js';
import { plainOf } from '../../src/platform/json/kept.js';

const KEY = 'rm-of-this-test-0123456789';
const MIB = 2 ** 20;
const signal = new AbortController().signal;
const context = { idempotency_key: 'b/0-0/0', signal };
const input = { message_log: [{ role: 'assistant', content: 'hello' }], metadata: {} };
const good = {
  observations: [{ role: 'environment', content: '' }],
  metadata: [{}],
  next_stop_strings: null,
  rewards: [0],
  terminateds: [false],
};

async function serve(
  handler: Handler,
  {
    env,
    ...settings
  }: { kind?: string; env?: Record<string, string> } & Record<string, unknown> = {},
): Promise<{
  url: string;
  environment: ExactEnvironment;
  step: () => Promise<TurnAnswer<ForeignObject>>;
}> {
  const { url } = await startServer(handler);
  const parsed = EnvironmentSettings.parse({ kind: 'http', url, ...settings });
  const environment = await createEnvironment(parsed, bareContext({ env: (name) => env?.[name] }));
  return { url, environment, step: () => environment.step(input, context) };
}

const observing = (content: string): object => ({
  ...good,
  observations: [{ role: 'environment', content }],
});

describe('an environment that answers too much', () => {
  test('is refused at 16 MiB, and at what temporal.yaml says', async () => {
    const { step, url } = await serve(answer(200, observing('x'.repeat(17 * MIB))));
    const { type, message } = await faultOf(step());
    assert.equal(type, 'EnvironmentRejected');
    assert.equal(message, `POST ${url}/step: answered with more than ${16 * MIB} bytes`);
    const small = await serve(answer(200, observing('x'.repeat(3000))), { max_answer: '1KiB' });
    assert.match((await faultOf(small.step())).message, /answered with more than 1024 bytes$/);
    const large = await serve(answer(200, observing('x'.repeat(17 * MIB))), {
      max_answer: '18MiB',
    });
    assert.equal((await large.step()).observation?.content.length, 17 * MIB);
  });

  for (const kind of ['http', 'gymnasium', 'reward_model'] as const)
    test(`of kind ${kind} has max_answer`, () => {
      const settings = EnvironmentSettings.parse({ kind, url: 'http://127.0.0.1:1' });
      assert.equal('max_answer' in settings && settings.max_answer, '16MiB');
      const tooLarge = { kind, url: 'http://127.0.0.1:1', max_answer: '1GiB' };
      assert.match(
        String(EnvironmentSettings.safeParse(tooLarge).error),
        /expected at most 256MiB/,
      );
    });

  test('in empty objects is not parsed: each takes many times its characters', async () => {
    const { step } = await serve(
      answer(200, { ...good, metadata: [{ x: Array(500_000).fill({}) }] }),
    );
    assert.match(
      (await faultOf(step())).message,
      /\(body\): expected at most \d+ lists and objects/,
    );
  });

  test('in the name of a field is quoted up to a whole character', async () => {
    for (const before of ['', 'x']) {
      const { step } = await serve(answer(200, { ...good, [before + '😀'.repeat(5000)]: 1 }));
      const { message } = await faultOf(step());
      assert.ok(message.length > 1000 && message.isWellFormed());
    }
  });

  test('in gzip is counted as it is read', async () => {
    const bomb = gzipSync(JSON.stringify(observing('x'.repeat(17 * MIB))));
    const { step } = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(bomb);
    });
    assert.match((await faultOf(step())).message, /answered with more than 16777216 bytes$/);
  });

  const names = (count: number): object =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`reward-${i}`, [1]]));
  const cases: [what: string, body: unknown, says: RegExp][] = [
    [
      '50,000 reward names',
      { ...good, rewards: names(50_000) },
      /rewards: expected at most 256 names, got 50000$/,
    ],
    [
      'a reward name of 10 kB',
      { ...good, rewards: { ['x'.repeat(10_000)]: [1] } },
      /rewards\.x{128}: expected a name of at most 128 characters, got 10000$/,
    ],
    [
      'half a million observations',
      { ...good, observations: Array(500_000).fill(0) },
      /observations: expected 1, one per message log, got 500000$/,
    ],
    [
      'half a million rewards',
      { ...good, rewards: Array(500_000).fill('1') },
      /rewards: expected 1, one per message log, got 500000$/,
    ],
    [
      'half a million stop strings',
      { ...good, next_stop_strings: [Array(500_000).fill('')] },
      /next_stop_strings\.0: expected at most 256, got 500000$/,
    ],
    [
      '100,000 unknown fields',
      { ...good, ...names(100_000) },
      /\(body\): expected at most 64 fields, got 100005$/,
    ],
    [
      'half a million levels',
      `${'['.repeat(500_000)}${']'.repeat(500_000)}`,
      /\(body\): expected at most 512 levels, got more$/,
    ],
    [
      'a reward name that no object keeps',
      JSON.stringify({ ...good, rewards: { a: [1] } }).replace('"a"', '"a":[1],"__proto__"'),
      /rewards\.__proto__: expected another name/,
    ],
    [
      'state under such a name',
      JSON.stringify(good).replace('"metadata":[{', '"metadata":[{"__proto__":{"a":1}'),
      /metadata\.0\.__proto__: expected another name: no object can keep a field __proto__, got one$/,
    ],
  ];
  for (const [what, body, says] of cases)
    test(`by ${what} is refused in a moment, by name`, async () => {
      const { step } = await serve(answer(200, body));
      const began = processorTime_ms();
      const { type, message } = await faultOf(step());
      assert.equal(type, 'EnvironmentRejected');
      assert.match(message, says);
      assert.ok(message.length < 4100, `${message.length} characters`);
      assert.ok(processorTime_ms() - began < 3000, `${processorTime_ms() - began} ms`);
    });

  test('by half a million messages at its beginning is refused in a moment', async () => {
    const { environment } = await serve(answer(200, { messages: Array(500_000).fill(0) }));
    const began = processorTime_ms();
    const { message } = await faultOf(
      environment.begin!({ message_log: [], metadata: {} }, context),
    );
    assert.match(message, /messages\.0: expected object, got 0$/);
    assert.ok(processorTime_ms() - began < 2000, `${processorTime_ms() - began} ms`);
  });

  test('keeps the names that every object has', async () => {
    const rewards = { constructor: [1], toString: [2], hasOwnProperty: [4] };
    const { step } = await serve(answer(200, { ...good, rewards }));
    const { reward } = await step();
    assert.deepEqual(Object.entries(reward), [
      ['constructor', 1],
      ['toString', 2],
      ['hasOwnProperty', 4],
    ]);
  });

  test('of kind gymnasium: its tools are bounded, too', async () => {
    const reset = { observation: 'go', info: null };
    const handler: Handler = ({ url }, response) => {
      const tool_outputs = Array(500_000).fill(0);
      const stepped = { observation: 'x', reward: 1, info: { tool_outputs } };
      answer(200, url === '/reset' ? reset : stepped)({} as never, response);
    };
    const { environment } = await serve(handler, { kind: 'gymnasium' });
    const begun = await environment.begin!({ message_log: [], metadata: {} }, context);
    const began = processorTime_ms();
    const step = environment.step({ ...input, metadata: begun!.metadata }, context);
    const { type, message } = await faultOf(step);
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /info\.tool_outputs: expected at most 1024 tool outputs, got more$/);
    assert.ok(processorTime_ms() - began < 2000, `${processorTime_ms() - began} ms`);
  });

  test('of kind gymnasium: so are its cookies', async () => {
    const { environment } = await serve(
      (_request, response) => {
        const cookies = Array.from({ length: 10 }, (_, i) => `c${i}=${'x'.repeat(1000)}`);
        response.setHeader('set-cookie', cookies);
        answer(200, { observation: 'go' })({} as never, response);
      },
      { kind: 'gymnasium' },
    );
    const begin = environment.begin!({ message_log: [], metadata: {} }, context);
    const { type, message } = await faultOf(begin);
    assert.equal(type, 'EnvironmentRejected');
    assert.match(message, /set-cookie: expected at most 8192 bytes of cookies, got 100\d\d$/);
  });

  test('of kind http: its metrics are, too', async () => {
    const { environment } = await serve(answer(200, names(5000)));
    const asked = environment.globalPostProcessAndMetrics!([], signal);
    assert.match((await faultOf(asked)).message, /expected at most 4096 metrics, got 5000$/);
  });
});

describe('an environment that repeats a secret', () => {
  const echo: Handler = ({ headers }, response) => {
    answer(401, { error: { type: 'Unauthorized', message: JSON.stringify(headers) } })(
      {} as never,
      response,
    );
  };

  test('in a refusal is quoted without it', async () => {
    const { step } = await serve(echo, {
      kind: 'reward_model',
      api_key_env: 'RM_KEY',
      env: { RM_KEY: KEY },
    });
    const { message, cause } = await faultOf(step());
    assert.match(message, /"authorization":"Bearer \[secret\]"/);
    assert.ok(!JSON.stringify(cause).includes(KEY));
  });

  test('in an observation, its state or a name has it removed there', async () => {
    keepSecret(KEY);
    const body = {
      ...observing(`headers: ${JSON.stringify({ authorization: `Bearer ${KEY}` })}`),
      metadata: [{ [KEY]: KEY }],
    };
    const { step } = await serve(answer(200, body));
    const { observation, metadata } = await step();
    assert.equal(observation?.content, 'headers: {"authorization":"Bearer [secret]"}');
    assert.deepEqual(plainOf(metadata), { '[secret]': '[secret]' });
  });

  test('in a text that is no JSON is quoted without any part of it', async () => {
    keepSecret(KEY);
    for (let before = 0; before < 30; before++) {
      const { step } = await serve(answer(200, `{"a": "${'x'.repeat(before)}" ${KEY}`));
      const { message } = await faultOf(step());
      for (let at = 0; at + 6 <= KEY.length; at++)
        assert.ok(!message.includes(KEY.slice(at, at + 6)), message);
    }
  });
});

describe('an environment that redirects', () => {
  for (const kind of ['http', 'reward_model'] as const)
    test(`of kind ${kind} is not followed`, async () => {
      const elsewhere = await startServer(answer(200, good));
      const { step } = await serve(
        (_request, response) => {
          response.writeHead(307, { location: `${elsewhere.url}/step` }).end();
        },
        { kind },
      );
      const { type, message } = await faultOf(step());
      assert.equal(type, 'EnvironmentRejected');
      const { host } = new URL(elsewhere.url);
      assert.match(message, new RegExp(`answered 307: a redirect to ${host}: redirects are not`));
      assert.deepEqual(elsewhere.received, []);
    });
});
