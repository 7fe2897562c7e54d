import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Environment } from '../../src/environments/environment.js';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { problemsOf } from '../../src/model/problems.js';
import { answer, startServer } from './loopback-server.js';

function problemsIn(settings: unknown): string[] {
  const { error } = EnvironmentSettings.safeParse(settings);
  assert.ok(error !== undefined, 'the settings were accepted');
  return problemsOf(error, settings).map(({ where, what }) => `${where}: ${what}`);
}

const make = (settings: unknown): Promise<Environment> =>
  createEnvironment(EnvironmentSettings.parse(settings), { name: 'test', report: () => undefined });

describe('environment settings', () => {
  test('of the sliding puzzle make an environment in process', async () => {
    assert.equal((await make({ kind: 'sliding_puzzle' })).in_process, true);
  });

  test('of kind http make an environment behind its URL', async () => {
    const { url, received } = await startServer(answer(400, ''));
    const environment = await make({ kind: 'http', url });
    assert.equal(environment.in_process, false);
    const context = { idempotency_key: 'b/0-0/0', signal: new AbortController().signal };
    await assert.rejects(environment.step({ message_log_batch: [], metadata: [] }, context));
    assert.equal(received[0]?.url, '/step');
  });

  test('of kind http have a timeout of five minutes unless they say another, which holds', async () => {
    const { url } = await startServer(() => undefined);
    assert.deepEqual(EnvironmentSettings.parse({ kind: 'http', url }), {
      kind: 'http',
      url,
      timeout: '5m',
    });
    const quick = {
      kind: 'http',
      url,
      timeout: '50ms',
      task_queue: 'gpu-tests',
      max_concurrent: 4,
    };
    const settings = EnvironmentSettings.parse(quick);
    assert.deepEqual(settings, quick);
    const context = { idempotency_key: 'b/0-0/0', signal: new AbortController().signal };
    await assert.rejects(
      (await make(settings)).step({ message_log_batch: [], metadata: [] }, context),
      /no answer within 50 ms/,
    );
  });

  test('of an unknown kind are refused, with the kind and those there are', () => {
    const known = 'known kinds: sliding_puzzle, http, code';
    assert.deepEqual(problemsIn({ kind: 'chess' }), [
      `kind: unknown environment kind "chess"; ${known}`,
    ]);
    assert.deepEqual(problemsIn({}), [`kind: required; ${known}`]);
    assert.deepEqual(problemsIn('http'), ['(input): expected object, got "http"']);
  });

  const url = 'http://127.0.0.1:9000';
  const refused: [settings: Record<string, unknown>, problem: string][] = [
    [{ kind: 'sliding_puzzle', size: 3 }, 'size: unknown field'],
    [{ kind: 'http', url, tiemout: '5m' }, 'tiemout: unknown field'],
    [{ kind: 'http', url, timeout: '90' }, 'timeout: expected a duration such as "30s" or "1h", got "90"'],
    [{ kind: 'http', url, max_concurrent: 0.5 }, 'max_concurrent: expected int, got 0.5'],
    [{ kind: 'http' }, 'url: expected string, got nothing'],
    [{ kind: 'http', url: '127.0.0.1:9000' }, 'url: expected a URL such as http://127.0.0.1:9000, got "127.0.0.1:9000"'],
    [{ kind: 'http', url: 'ws://h' }, 'url: expected a URL such as http://127.0.0.1:9000, got "ws://h"'],
  ]; // prettier-ignore
  for (const [settings, problem] of refused) {
    test(`${JSON.stringify(settings)} is refused by field`, () => {
      assert.deepEqual(problemsIn(settings), [problem]);
    });
  }

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
