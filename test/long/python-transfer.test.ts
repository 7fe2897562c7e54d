/** A trainer in Python sends its weights itself, on a real server, to real simulators. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { after, before, describe, test } from 'node:test';
import { PYTHON_PACKAGES } from '../../dev/trainer-example.js';
import { exampleIn } from '../docs/example.js';
import type { PolicyBed } from '../../lab/bed/policy-bed.js';
import { startPolicyBed, TASK_QUEUE } from '../../lab/bed/policy-bed.js';
import { isPaused } from '../../lab/bed/engine.js';
import { install, skip } from '../harness/python-package.js';

describe('a trainer in Python that sends weights itself', { skip }, () => {
  let bed: PolicyBed;
  before(async () => {
    bed = await startPolicyBed({ name: 'python-transfer' });
  });
  after(() => bed.end());

  /** The last line that it prints. */
  async function trainer(how: string, input = ''): Promise<unknown> {
    const { address, namespace } = bed.server();
    const program = spawn(
      install.python,
      [path.join(PYTHON_PACKAGES, 'tests', 'send_weights.py'), how],
      {
        env: {
          ...process.env,
          PYTHONPATH: PYTHON_PACKAGES,
          PYTHONDONTWRITEBYTECODE: '1',
          ADDRESS: address,
          NAMESPACE: namespace,
          TASK_QUEUE,
        },
        stdio: ['pipe', 'pipe', 'pipe'],
      },
    );
    program.stdin.end(input);
    const [out, err] = [text(program.stdout), text(program.stderr)];
    const [code] = (await once(program, 'close')) as [number | null];
    assert.equal(code, 0, `${await out}${await err}`);
    return JSON.parse((await out).trim().split('\n').at(-1) ?? '');
  }

  test('brings them to every engine, whose label is the version and not the one that it names', async () => {
    const { version, replicas } = (await trainer('whole')) as { version: number; replicas: object };
    assert.equal(version, 1);
    assert.deepEqual(Object.values(replicas), [{ state: 'current' }, { state: 'current' }]);
    for (const engine of bed.engines) {
      const told = (await (await fetch(`${engine.process().url}/weight_info`)).json()) as object;
      assert.deepEqual(told, { weight_version: '1' });
    }
  });

  test('is as short as the page says', async () => {
    const block = await exampleIn('docs/transfers.md', 'transfer(holder="grpo"');
    const { replicas } = (await trainer('printed', block)) as { replicas: object };
    assert.deepEqual(Object.values(replicas), [{ state: 'current' }, { state: 'current' }]);
  });

  test('gives the engines up where its block raises, and they stay paused', async () => {
    const replicas = (await trainer('raises')) as Record<string, { state: string; needs?: string }>;
    for (const { state, needs } of Object.values(replicas))
      assert.deepEqual([state, needs], ['unknown', 'load']);
    for (const engine of bed.engines) assert.equal(await isPaused(engine), true);
  });

  test('moves nothing more once its successor has the engines, which repairs them', async () => {
    const why = (await trainer('superseded')) as string;
    assert.match(
      why,
      /^transfer of version \d+: its ticket "?'?\w+'?"? is over, the engines are held by nobody/,
    );
    const { replicas } = (await bed.record())!;
    assert.ok(
      Object.values(replicas).every(({ state }) => state === 'current'),
      JSON.stringify(replicas),
    );
  });

  test('does the same on an event loop, and blocks it by no call', async () => {
    const { refused, result } = (await trainer('in_a_loop')) as {
      refused: string;
      result: { replicas: object };
    };
    assert.match(refused, /asyncio\.to_thread/);
    assert.deepEqual(Object.values(result.replicas), [{ state: 'current' }, { state: 'current' }]);
  });
});
