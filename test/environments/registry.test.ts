import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { ExactEnvironment } from '../../src/environments/environment.js';
import {
  createEnvironment,
  EnvironmentSettings,
  isInProcess,
  isRemote,
  resolvePaths,
} from '../../src/environments/registry.js';
import { problemsOf } from '../../src/model/problems.js';
import { bareContext } from '../fakes/environment-context.js';
import { stepOne } from '../fakes/environment-steps.js';
import { answer, startServer } from './loopback-server.js';

function problemsIn(settings: unknown): string[] {
  const { error } = EnvironmentSettings.safeParse(settings);
  assert.ok(error !== undefined, 'the settings were accepted');
  return problemsOf(error, settings).map(({ where, what }) => `${where}: ${what}`);
}

const make = (settings: unknown): Promise<ExactEnvironment> =>
  createEnvironment(EnvironmentSettings.parse(settings), bareContext());

describe('environment settings', () => {
  const of = { url: 'http://127.0.0.1:9000' };
  const format = { name: 'format', weight: 1 };
  const places: [where: string, settings: Record<string, unknown>][] = [
    ['in process', { kind: 'sliding_puzzle' }],
    ['in process', { kind: 'calculator' }],
    ['in process', { kind: 'code_jaccard' }],
    ['in process', { kind: 'retriever', corpus: 'c' }],
    ['in process', { kind: 'math', verifier: 'multichoice' }],
    ['on this machine', { kind: 'math' }],
    ['in process', { kind: 'vlm', reward_functions: [format] }],
    ['on this machine', { kind: 'vlm', reward_functions: [format, { name: 'geo3k', weight: 1 }] }],
    ['in process', { kind: 'module', path: 'm.ts' }],
    ['on this machine', { kind: 'module', path: 'm.ts', in_process: false }],
    ['on this machine', { kind: 'code' }],
    ['a service', { kind: 'code', ...of }],
    ['a service', { kind: 'http', ...of }],
    ['a service', { kind: 'gymnasium', ...of }],
    ['a service', { kind: 'gym_agent', head_server: of.url }],
    ['a service', { kind: 'reward_model', ...of }],
  ];
  for (const [where, given] of places)
    test(`${JSON.stringify(given)} is played ${where}`, () => {
      const settings = EnvironmentSettings.parse(given);
      const played = [isInProcess(settings), isRemote(settings)];
      assert.deepEqual(played, [where === 'in process', where === 'a service']);
    });

  test('of kind http make an environment behind its URL', async () => {
    const { url, received } = await startServer(answer(400, ''));
    const environment = await make({ kind: 'http', url });
    const context = { idempotency_key: 'b/0-0/0', signal: new AbortController().signal };
    await assert.rejects(environment.step({ message_log: [], metadata: {} }, context));
    assert.equal(received[0]?.url, '/step');
  });

  for (const kind of ['http', 'gymnasium', 'code', 'reward_model'])
    test(`of kind ${kind} name the variable of a token, which every request brings`, async () => {
      const { url, received } = await startServer(answer(400, ''));
      const name = kind === 'reward_model' ? 'api_key_env' : 'token_env';
      const more = kind === 'reward_model' ? { protocol: 'vllm' } : {};
      const settings = EnvironmentSettings.parse({ kind, url, [name]: 'TOKEN', ...more });
      const env = (variable: string) => (variable === 'TOKEN' ? 'correct-horse' : undefined);
      const environment = await createEnvironment(settings, { ...bareContext(), env });
      await environment.health?.(new AbortController().signal).catch(() => undefined);
      assert.deepEqual(
        received.map(({ headers }) => headers.authorization),
        ['Bearer correct-horse'],
      );
      await environment.close?.();
    });

  test('of kind http have a timeout of five minutes unless they say another, which holds', async () => {
    const { url } = await startServer(() => undefined);
    assert.deepEqual(EnvironmentSettings.parse({ kind: 'http', url }), {
      kind: 'http',
      url,
      token_env: null,
      timeout: '5m',
      max_answer: '16MiB',
    });
    const quick = {
      kind: 'http',
      url,
      token_env: null,
      timeout: '50ms',
      max_answer: '1MiB',
      task_queue: 'gpu-tests',
      max_concurrent: 4,
    };
    const settings = EnvironmentSettings.parse(quick);
    assert.deepEqual(settings, quick);
    const context = { idempotency_key: 'b/0-0/0', signal: new AbortController().signal };
    await assert.rejects(
      (await make(settings)).step({ message_log: [], metadata: {} }, context),
      /no answer within 50 ms/,
    );
  });

  test('of an unknown kind are refused, with the kind and those there are', () => {
    const known =
      'known kinds: sliding_puzzle, math, code, vlm, retriever, code_jaccard, reward_model, calculator, http, gym_agent, agent, gymnasium, module';
    assert.deepEqual(problemsIn({ kind: 'chess' }), [
      `kind: unknown environment kind "chess"; ${known}`,
    ]);
    assert.deepEqual(problemsIn({ kind: 'gymnasum' }), [
      `kind: unknown environment kind "gymnasum"; ${known}; did you mean gymnasium?`,
    ]);
    assert.deepEqual(problemsIn({}), [`kind: required; ${known}`]);
    assert.deepEqual(problemsIn('http'), ['(input): expected object, got "http"']);
  });

  const url = 'http://127.0.0.1:9000';
  // One case a line.
  // prettier-ignore
  const refused: [settings: Record<string, unknown>, problem: string][] = [
    [{ kind: 'sliding_puzzle', size: 3 }, 'size: unknown field'],
    [{ kind: 'http', url, tiemout: '5m' }, 'tiemout: unknown field'],
    [{ kind: 'http', url, timeout: '90' }, 'timeout: expected a duration such as "30s" or "1h", got "90"'],
    [{ kind: 'http', url, max_concurrent: 0.5 }, 'max_concurrent: expected int, got 0.5'],
    [{ kind: 'http' }, 'url: expected string, got nothing'],
    [{ kind: 'http', url: '127.0.0.1:9000' }, 'url: expected a URL such as http://127.0.0.1:9000, got "127.0.0.1:9000"'],
    [{ kind: 'code_jaccard', threshold: 1 }, 'threshold: unknown field'],
    [{ kind: 'calculator', max_steps: 5 }, 'max_steps: unknown field'],
    [{ kind: 'retriever' }, 'corpus: expected string, got nothing'],
    [{ kind: 'retriever', corpus: 'c', num_results: 0 }, 'num_results: Too small: expected number to be >0, got 0'],
    [{ kind: 'retriever', corpus: 'c', b: 1.5 }, 'b: Too big: expected number to be <=1, got 1.5'],
    [{ kind: 'retriever', corpus: 'c', tokenizer: 'wordpiece' }, 'vocabulary: required by tokenizer wordpiece: the path of its vocab.txt'],
    [{ kind: 'retriever', corpus: 'c', vocabulary: 'v' }, 'vocabulary: expected none with tokenizer alphanumeric, got "v"'],
    [{ kind: 'reward_model' }, 'url: expected string, got nothing'],
    [{ kind: 'reward_model', url, protocol: 'grpc' }, 'protocol: Invalid option: expected one of "scores"|"vllm", got "grpc"'],
    [{ kind: 'http', url: 'ws://h' }, 'url: expected a URL such as http://127.0.0.1:9000, got "ws://h"'],
  ];
  for (const [settings, problem] of refused) {
    test(`${JSON.stringify(settings)} is refused by field`, () => {
      assert.deepEqual(problemsIn(settings), [problem]);
    });
  }

  test('of kind retriever have upstream’s defaults, and paths from where temporal.yaml is', () => {
    const given = {
      kind: 'retriever',
      corpus: 'wiki/docs.jsonl',
      vocabulary: '/models/vocab.txt',
      tokenizer: 'wordpiece',
    };
    assert.deepEqual(resolvePaths(EnvironmentSettings.parse(given), '/deployment'), {
      ...given,
      corpus: '/deployment/wiki/docs.jsonl',
      split: null,
      text_column: 'text',
      num_results: 10,
      k1: 1.5,
      b: 0.75,
    });
  });

  test('of kind retriever open the retriever of their name, which the context shares', async () => {
    const opened: string[] = [];
    const found = { id: 0, text: 'a document', score: 1 };
    const context = bareContext({
      name: 'wiki',
      retriever: (name) => {
        opened.push(name);
        return Promise.resolve({ document_count: 1, search: () => [found] });
      },
    });
    const settings = EnvironmentSettings.parse({ kind: 'retriever', corpus: 'docs.jsonl' });
    const environment = await createEnvironment(settings, context);
    const log = [{ role: 'assistant', content: '<retrieve>q</retrieve>' }];
    const { observation } = await stepOne(environment, { log });
    assert.equal(observation?.content, '<result>\n<1>\na document\n</1>\n</result>\n');
    assert.deepEqual(opened, ['wiki']);
  });

  test('of kind reward_model take the key from the variable that they name, and need it', async () => {
    const { url, received } = await startServer(answer(200, { scores: [1] }));
    const settings = EnvironmentSettings.parse({
      kind: 'reward_model',
      url,
      api_key_env: 'RM_KEY',
    });
    const withKey = (key: string | undefined): Promise<ExactEnvironment> =>
      createEnvironment(
        settings,
        bareContext({ env: (name) => (name === 'RM_KEY' ? key : undefined) }),
      );
    await stepOne(await withKey('rm-0123456789'), { log: [] });
    assert.equal(received[0]?.headers.authorization, 'Bearer rm-0123456789');
    for (const key of [undefined, ''])
      await assert.rejects(
        withKey(key),
        /^Error: environments\.test\.api_key_env: expected the environment variable RM_KEY to hold the key, it is not set$/,
      );
    for (const [key, why] of [
      ['k3y', /^Error: environments\.test\.api_key_env: .* of at least 8 characters, got 3: /],
      ['two words and a line end\n', /RM_KEY to hold the key, got one with spaces, line ends/],
    ] as const)
      await assert.rejects(withKey(key), (error: Error) => {
        assert.match(String(error), why);
        assert.ok(!error.message.includes(key));
        return true;
      });
  });

  test('with a secret in the URL are refused without repeating it', () => {
    for (const secretUrl of [
      'http://me:secret@host',
      'http://host/?key=secret',
      'ws://me:secret@host',
    ]) {
      const [problem] = problemsIn({ kind: 'http', url: secretUrl });
      assert.match(problem!, /^url: expected a URL without .*, got one with$/);
      assert.doesNotMatch(problem!, /secret/);
    }
  });
});
