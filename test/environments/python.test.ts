import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { promisify } from 'node:util';
import { createEnvironment, EnvironmentSettings } from '../../src/environments/registry.js';
import { writeJson } from '../../src/platform/json/kept.js';
import { bareContext } from '../fakes/environment-context.js';
import { createHttpEnvironment } from '../../src/environments/http/environment.js';
import { PYTHON, servePython, withoutPython as skip } from './python-server.js';

const SOURCE = `
class Echo:
    def step(self, message_log_batch, metadata):
        if message_log_batch[0][-1]["content"] == "bad":
            raise ValueError("no ground truth")
        seen = [{"role": "environment", "content": log[-1]["content"]} for log in message_log_batch]
        n = len(seen)
        first = float("nan") if seen[0]["content"] == "nan" else 1.0
        return {"observations": seen, "metadata": metadata, "next_stop_strings": None,
                "rewards": {"a": [first] * n, "b": [0.5] * n}, "terminateds": [1] * n, "truncateds": [1] * n, "answers": ["x"] * n}

    def global_post_process_and_metrics(self, batch):
        return batch, {"rollouts": len(batch), "reward": sum(r["total_reward"] for r in batch)}
`;

/** They wait for limits that pass. */
const PROCESSES = 4;
const TEST_NAMES = `
import unittest
def names(suite):
    for one in suite:
        yield from names(one) if isinstance(one, unittest.TestSuite) else [one.id()]
print(*names(unittest.defaultTestLoader.discover("tests")), sep="\\n")
`;
import { plainly } from '../fakes/plainly.js';

const runPython = (args: string[]) =>
  promisify(execFile)('python3', args, {
    cwd: PYTHON,
    env: { ...process.env, PYTHONPATH: path.join(PYTHON, 'tests') },
  });

describe('the Python package', { skip }, () => {
  test('passes its own tests', async () => {
    const { stdout } = await runPython(['-c', TEST_NAMES]);
    const names = stdout.trim().split('\n');
    const processes = Array.from({ length: PROCESSES }, (_, k) =>
      runPython(['-m', 'unittest', ...names.filter((_, i) => i % PROCESSES === k)]),
    );
    const counts = (await Promise.all(processes)).map(({ stderr }) =>
      Number(/^Ran (\d+) tests? in /m.exec(stderr)?.[1]),
    );
    assert.equal(
      counts.reduce((sum, count) => sum + count),
      names.length,
    );
  });

  async function ends(t: TestContext, { source, port }: { source: string; port: number }) {
    const folder = await mkdtemp(path.join(tmpdir(), 'python-'));
    t.after(() => rm(folder, { recursive: true }));
    await writeFile(path.join(folder, 'mine.py'), source);
    return spawnSync(
      'python3',
      ['-m', 'rollout_environment', 'mine:Echo', '--port', String(port)],
      {
        cwd: folder,
        encoding: 'utf8',
        env: { ...process.env, PYTHONPATH: PYTHON, PYTHONDONTWRITEBYTECODE: '1' },
        timeout: 280_000,
      },
    );
  }

  test('says in a line that its port is taken, and ends', async (t) => {
    const other = createServer().listen(0, '127.0.0.1');
    await once(other, 'listening');
    t.after(() => other.close());
    const { port } = other.address() as AddressInfo;
    const { status, stderr } = await ends(t, { source: SOURCE, port });
    assert.equal(status, 1);
    assert.match(stderr, new RegExp(`^cannot listen on 127.0.0.1:${port}: .*already in use\n$`));
  });

  test('says why a class cannot be loaded, with its own frames, and ends', async (t) => {
    const source = 'table = {}\nlimit = table["limit"]\n';
    const { status, stderr } = await ends(t, { source, port: 0 });
    assert.equal(status, 1);
    assert.match(
      stderr,
      /mine\.py", line 2, in <module>[^]*\ncannot load mine:Echo: KeyError: 'limit'\n$/,
    );
  });

  test('started with a token takes it from an environment that names its variable, and from nobody else', async (t) => {
    const source = `import os\n${SOURCE}\n    def begin(self, sample):\n        return {"inherited": "ROLLOUT_TOKEN" in os.environ}\n`;
    const { url } = await servePython(t, {
      source,
      name: 'Echo',
      more: ['--token-env', 'ROLLOUT_TOKEN'],
      env: { ROLLOUT_TOKEN: 'correct-horse' },
    });
    const { signal } = new AbortController();
    const made = (token: string | null) =>
      createEnvironment(EnvironmentSettings.parse({ kind: 'http', url, token_env: token }), {
        ...bareContext(),
        name: 'guess',
        env: (variable) => ({ RIGHT: 'correct-horse', WRONG: 'another-horse' })[variable],
      });
    const right = await made('RIGHT');
    t.after(() => right.close?.());
    await right.health?.(signal);
    const begun = await right.begin?.(
      { message_log: [], metadata: {} },
      { idempotency_key: 'b/0-0/begin-0', signal },
    );
    assert.deepEqual(JSON.parse(writeJson(begun?.metadata)), { inherited: false });
    for (const [token, hint] of [
      [
        'WRONG',
        /answered 401: Unauthorized: .* got another; the token in WRONG is not the one that it takes$/,
      ],
      [
        null,
        /answered 401: Unauthorized: .* got none; token_env .* names the variable that holds its token$/,
      ],
    ] as const) {
      const refused = await made(token);
      t.after(() => refused.close?.());
      // A batch waits before its first rollout.
      await assert.rejects(async () => refused.health?.(signal), {
        type: 'EnvironmentUnavailable',
        message: hint,
      });
      const input = { message_log: [], metadata: {} };
      await assert.rejects(refused.step(input, { idempotency_key: 'b/0-0/0', signal }), {
        type: 'EnvironmentRejected',
        message: /401: Unauthorized: Authorization: expected Bearer with the token/,
      });
    }
    await assert.rejects(
      made('UNSET'),
      /environments\.guess\.token_env: expected the environment variable UNSET to hold the key, it is not set/,
    );
  });

  test('serves a class to kind http, and ends with SIGTERM', async (t) => {
    const { url, child, log } = await servePython(t, { source: SOURCE, name: 'Echo' });
    const environment = createHttpEnvironment({ url, timeout_ms: 10_000 });
    const { signal } = new AbortController();
    await environment.health(signal);
    const say = (content: string) =>
      environment.step(
        { message_log: [{ role: 'assistant', content }], metadata: { left: 2 } },
        { idempotency_key: `b/0-0/${content}`, signal },
      );
    assert.deepEqual(plainly(await say('hi')), {
      observation: { role: 'environment', content: 'hi' },
      metadata: { left: 2 },
      next_stop_strings: null,
      reward: { a: 1, b: 0.5 },
      terminated: true,
      truncated: true,
      answer: 'x',
    });
    await assert.rejects(say('bad'), {
      name: 'EnvironmentFailed',
      message: /500: ValueError: no ground truth \(at mine\.py:5 in step: raise ValueError/,
      trace: /^Traceback \(most recent call last\):\n +File ".*mine\.py", line 5, in step\n/,
    });
    await assert.rejects(say('nan'), {
      name: 'EnvironmentRejected',
      message: /rewards\.a\.0: expected a finite number, got nan$/,
    });
    assert.match(
      log(),
      /POST \/step 'b\/0-0\/bad': 500 ValueError: .*\nTraceback .*\n.*mine\.py", line 5/,
    );
    const rollout = { message_log: [], total_reward: 0.5, rewards: {}, extra_env_info: {} };
    const rollouts = Array.from({ length: 2000 }, () => rollout);
    assert.deepEqual(await environment.globalPostProcessAndMetrics(rollouts, signal), {
      rollouts: 2000,
      reward: 1000,
    });
    await environment.close();
    const ended = once(child, 'exit');
    child.kill('SIGTERM');
    assert.deepEqual(await ended, [0, null]);
  });
});
