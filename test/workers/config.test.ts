import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { problemsOf } from '../../src/model/problems.js';
import { Config } from '../../src/workers/config.js';
import { queuesOf } from '../../src/workers/queues.js';
import { slotsOf } from '../../src/workers/slots.js';

const withService = (more: object) => ({
  generation: { default: { kind: 'vllm', base_urls: ['http://a/v1', 'http://b/v1'], ...more } },
  environments: {},
});

const linesOf = (input: object): string[] => {
  const { error } = Config.safeParse(input);
  return error === undefined
    ? []
    : problemsOf(error, input).map(({ where, what }) => `${where}: ${what}`);
};

describe('worker.memory', () => {
  const problemsWith = (memory: unknown): string[] =>
    Config.safeParse({ ...withService({}), worker: { memory } }).error?.issues.map(
      ({ message }) => message,
    ) ?? [];

  test('is a size that a process can have', () => {
    for (const memory of ['256MiB', '1GiB', '1.5GiB', '1048576GiB'])
      assert.deepEqual(problemsWith(memory), []);
  });

  for (const [memory, says] of [
    ['0MiB', /^expected a size such as 64MiB or 1GiB, got "0MiB"$/],
    ['0.1MiB', /^expected 256MiB or more, got "0.1MiB"$/],
    ['255MiB', /^expected 256MiB or more, got "255MiB"$/],
    [
      '100000000000000000000GiB',
      /^expected a size of at most 1048576GiB, got "100000000000000000000GiB"$/,
    ],
    [`${'9'.repeat(400)}GiB`, /^expected a size of at most 1048576GiB/],
    ['-1GiB', /^expected a size such as/],
    ['1000', /^expected a size such as/],
  ] as const) {
    test(`cannot be ${memory.slice(0, 30)}`, () => {
      const problems = problemsWith(memory);
      assert.equal(problems.length, 1);
      assert.match(problems[0] ?? '', says);
    });
  }
});

describe('generations at once on one replica', () => {
  test('are left open where nothing is said, and a positive number otherwise', () => {
    const limitOf = (more: object) =>
      Config.parse(withService(more)).generation['default']?.max_concurrent;
    assert.equal(limitOf({}), null);
    assert.equal(limitOf({ max_concurrent: null }), null);
    assert.equal(limitOf({ max_concurrent: 32 }), 32);
  });

  for (const max_concurrent of [0, -1, 1.5, '32']) {
    test(`cannot be ${JSON.stringify(max_concurrent)}`, () => {
      const { error } = Config.safeParse(withService({ max_concurrent }));
      assert.deepEqual(error?.issues[0]?.path, ['generation', 'default', 'max_concurrent']);
    });
  }
});

describe('the base URL of an engine', () => {
  const problemsOfUrl = (url: string): string[] => {
    const input = withService({ base_urls: [url] });
    const { error } = Config.safeParse(input);
    return error === undefined ? [] : problemsOf(error, input).map(({ what }) => what);
  };

  test('ends in /v1, and is quoted where it does not', () => {
    assert.deepEqual(problemsOfUrl('https://gpu.example/v1'), []);
    assert.deepEqual(problemsOfUrl('https://gpu.example'), [
      'expected a base URL that ends in /v1, got "https://gpu.example"',
    ]);
  });

  const spellings: [string, string][] = [
    ['http://a:8000/v1/', 'http://a:8000/v1'],
    ['http://a:8000/v1//', 'http://a:8000/v1'],
    ['HTTP://A:8000//v1', 'http://a:8000/v1'],
    ['http://a:80/v1', 'http://a/v1'],
    ['https://a:443/gateway/./one/v1/', 'https://a/gateway/one/v1'],
    ['http://[::1]:8000/v1/', 'http://[::1]:8000/v1'],
  ];
  for (const [url, one] of spellings)
    test(`${url} is another spelling of ${one}`, () => {
      const { generation } = Config.parse(withService({ base_urls: [url] }));
      assert.deepEqual(generation['default']?.base_urls, [one]);
      assert.deepEqual(Config.parse(withService({ base_urls: [one] })).generation, generation);
    });

  test('may have no engine where some may join', () => {
    const allow = [{ cidr: '10.1.0.0/16', ports: '8000' }];
    assert.equal(Config.safeParse(withService({ base_urls: [], allow })).success, true);
    assert.deepEqual(linesOf(withService({ base_urls: [] })), [
      'generation.default.base_urls: expected at least one URL, or `allow`, so that engines may join; got neither',
    ]);
  });

  test('is there once, however it is spelled', () => {
    const base_urls = ['http://a/v1', 'http://b/v1', 'http://A:80/v1/'];
    assert.deepEqual(linesOf(withService({ base_urls })), [
      'generation.default.base_urls.2: expected each engine once, got http://a/v1 again, which is at 0, too',
    ]);
  });

  for (const url of [
    'http://me:s3cret-word@host/v1',
    'http://me:s3cret-word@host',
    'http://me:s3cret word@host:x/v1',
    'me:s3cret-word@host',
    'http://host/v1?key=s3cret-word',
    'http://s3cret-word@host/v1',
  ]) {
    test(`is refused with credentials and not quoted: ${url.replace(/s3cret.word/, '…')}`, () => {
      const problems = problemsOfUrl(url);
      assert.equal(problems.length, 1, problems.join());
      assert.match(problems[0] ?? '', /^expected a URL without .*, got one with$/);
    });
  }
});

describe('every other URL of the file', () => {
  test('loses its last slash, too', () => {
    const urls = ['http://a:9/', 'http://b:9/control//'];
    const environments = {
      http: { kind: 'http', url: 'http://e:9/' },
      rm: { kind: 'reward_model', url: 'http://e:9/rm/' },
      gymnasium: { kind: 'gymnasium', url: 'http://E:9/gym/' },
      code: { kind: 'code', url: 'http://e:9/box/' },
      agent: { kind: 'gym_agent', head_server: 'http://e:9/', agents: { one: 'http://e:8/one/' } },
    };
    const config = Config.parse({ ...withService({ control: { urls } }), environments });
    assert.deepEqual(config.generation['default']?.control.urls, [
      'http://a:9',
      'http://b:9/control',
    ]);
    const text = JSON.stringify(config.environments);
    assert.deepEqual(text.match(/http:[^"]*/g), [
      'http://e:9',
      'http://e:9/rm',
      'http://e:9/gym',
      'http://e:9/box',
      'http://e:9',
      'http://e:8/one',
    ]);
  });

  test('of an engine’s control is there once', () => {
    const urls = ['http://a:9', 'http://a:9/'];
    assert.deepEqual(linesOf(withService({ control: { urls } })), [
      'generation.default.control.urls.1: expected each engine once, got http://a:9 again, which is at 0, too',
    ]);
  });
});

describe('an engine of two services', () => {
  const problemsOfOther = (url: string) =>
    Config.safeParse({
      ...withService({}),
      generation: {
        ...withService({}).generation,
        judge: { kind: 'vllm', base_urls: ['http://c/v1', url] },
      },
    }).error?.issues.map(({ path, message }) => [path.join('.'), message]) ?? [];

  for (const url of ['http://b/v1', 'http://b/v1/', 'http://b:80/v1', 'http://B/v1'])
    test(`is refused, however it is written: ${url}`, () => {
      const [[path, message] = [], ...more] = problemsOfOther(url);
      assert.equal(path, 'generation.judge.base_urls.1');
      assert.match(
        message ?? '',
        /^expected an engine that no other service has, got .* of generation\.default; /,
      );
      assert.deepEqual(more, []);
    });

  test('is refused under the other name of this machine', () => {
    const services = {
      a: { kind: 'vllm', base_urls: ['http://127.0.0.1:8000/v1'] },
      b: { kind: 'vllm', base_urls: ['http://localhost:8000/v1'] },
    };
    const { error } = Config.safeParse({ ...withService({}), generation: services });
    assert.match(error?.issues[0]?.message ?? '', /an engine that no other service has/);
    const twice = {
      a: { kind: 'vllm', base_urls: services.a.base_urls.concat(services.b.base_urls) },
    };
    assert.match(
      Config.safeParse({ ...withService({}), generation: twice }).error?.issues[0]?.message ?? '',
      /expected each engine once/,
    );
  });

  test('are two engines where host, port or path differ', () => {
    for (const url of ['http://b:8000/v1', 'https://b/v1', 'http://b/other/v1'])
      assert.deepEqual(problemsOfOther(url), []);
  });
});

describe('environments of agents on one queue', () => {
  const run = { url: 'http://agent' };
  const agent = (change: object) => ({ kind: 'agent', run, ...change });
  const problems = (environments: object) =>
    Config.safeParse({ ...withService({}), environments }).error?.issues.map(
      ({ path, message }) => [path.join('.'), message],
    ) ?? [];

  test('are refused where they name other limits, since its slots would be the smaller one for both', () => {
    assert.deepEqual(problems({ a: agent({ max_concurrent: 24 }), b: agent({}) }), [
      [
        'environments.b.max_concurrent',
        'expected 24, as environment a has on the same task queue rollouts-agent, or a task_queue of its own, got 8',
      ],
    ]);
  });

  test('play with one limit on one queue, or each with its own on a queue of its own', () => {
    assert.deepEqual(problems({ a: agent({}), b: agent({ max_concurrent: 8 }) }), []);
    const own = { a: agent({ max_concurrent: 24, task_queue: 'of-a' }), b: agent({}) };
    assert.deepEqual(problems(own), []);
    const config = Config.parse({ ...withService({}), environments: own });
    const slots = slotsOf(config);
    assert.deepEqual([slots.get('of-a'), slots.get('rollouts-agent')], [24, 8]);
  });

  test('whose calls the gateway answers are on the queue of programs, which role environment has', () => {
    const gym = (model_server: string) => ({
      kind: 'gym_agent',
      agents: { one: 'http://e' },
      model_server,
    });
    const environments = { gym: gym('gateway') };
    const config = Config.parse({ ...withService({}), environments });
    assert.deepEqual(
      queuesOf(config).find(({ name }) => name === 'rollouts-agent')?.role,
      'environment',
    );
    assert.equal(slotsOf(config).has('rollouts-agent'), true);
    const own = Config.parse({ ...withService({}), environments: { gym: gym('own') } });
    assert.deepEqual(
      queuesOf(own).map(({ name }) => name),
      ['rollouts', 'rollouts-generation', 'rollouts-environment'],
    );
  });

  test('take nothing from the steps of others on their worker', () => {
    const http = (change: object) => ({ kind: 'http', url: 'http://e', ...change });
    const environments = { slow: http({ max_concurrent: 4 }), fast: http({}), b: agent({}) };
    const slots = slotsOf(Config.parse({ ...withService({}), environments }));
    assert.equal(slots.get('rollouts-environment'), 256);
  });
});

describe('max_answer of an engine', () => {
  test('is a size up to 256MiB', () => {
    const pathOf = (max_answer: unknown) =>
      Config.safeParse(withService({ max_answer })).error?.issues[0]?.path;
    assert.equal(pathOf('32MiB'), undefined);
    for (const wrong of ['512MiB', '0MiB', 16, 'much'])
      assert.deepEqual(pathOf(wrong), ['generation', 'default', 'max_answer']);
  });
});

describe('a setting of a wrong kind is reported with an example of what belongs there', () => {
  const problemsIn = (input: object): string[] => {
    const { error } = Config.safeParse(input);
    return error === undefined
      ? []
      : problemsOf(error, input).map(({ where, what }) => `${where}: ${what}`);
  };
  const inEnvironments = (env: object): object => ({ ...withService({}), environments: { env } });

  test('a part that is missing', () => {
    assert.deepEqual(problemsIn({ generation: 'http://a/v1' }), [
      'generation: expected an object such as { default: { kind: vllm, base_urls: [http://127.0.0.1:8000/v1] } }, got "http://a/v1"',
      'environments: expected an object such as { math: { kind: math } }, got nothing',
    ]);
    assert.deepEqual(problemsIn({ ...withService({}), environments: ['math'] }), [
      'environments: expected an object such as { math: { kind: math } }, got ["math"]',
    ]);
  });

  test('a duration and a size without a unit', () => {
    const worker = { heartbeat_timeout: 10, turn_slice: 2, memory: 1024 };
    assert.deepEqual(problemsIn({ ...withService({}), worker }), [
      'worker.turn_slice: expected a duration such as "30s" or "1h", got 2',
      'worker.heartbeat_timeout: expected a duration such as "30s" or "1h", got 10',
      'worker.memory: expected a size such as 64MiB or 1GiB, got 1024',
    ]);
  });

  test('an address of Temporal that is a URL', () => {
    const temporal = { address: 'http://127.0.0.1:7233' };
    assert.deepEqual(problemsIn({ ...withService({}), temporal }), [
      'temporal.address: expected host:port, such as 127.0.0.1:7233, got "http://127.0.0.1:7233"',
    ]);
  });

  test('a module in Python: how it is served', () => {
    const [problem] = problemsIn(inEnvironments({ kind: 'module', path: './flaky.py' }));
    assert.match(
      problem ?? '',
      /^environments\.env\.path: .* got "\.\/flaky\.py"; .* kind: http.* python -m rollout_environment flaky:CLASS --port 9000/,
    );
    assert.deepEqual(problemsIn(inEnvironments({ kind: 'module', path: './flaky.ts' })), []);
  });
});
