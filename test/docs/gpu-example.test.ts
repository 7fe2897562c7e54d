/** The script for people with GPUs, on a machine that has none. What it checks is played by test/interop/gpu-example.test.ts. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { test } from 'node:test';
import { withoutPython } from '../environments/python-server.js';

function check(...args: string[]): { status: number | null; stdout: string; stderr: string } {
  const { status, stdout, stderr } = spawnSync('python3', ['examples/gpu/check.py', ...args], {
    encoding: 'utf8',
    env: { ...process.env, CUDA_VISIBLE_DEVICES: '', PYTHONDONTWRITEBYTECODE: '1' },
  });
  return { status, stdout, stderr };
}

/** With torch, or without. */
const NO_CUDA =
  /^check\.py: (?:nccl: expected 2 GPUs with CUDA, got 0; ipc: expected 1 .*|this Python has no torch, and so no CUDA)\./;

test(
  'examples/gpu/check.py refuses by name where there is no CUDA, and starts nothing',
  { skip: withoutPython },
  () => {
    const { status, stdout, stderr } = check();
    assert.match(stderr, NO_CUDA);
    assert.deepEqual({ status, stdout }, { status: 2, stdout: '' });
  },
);

test('examples/gpu/check.py refuses a case that it does not have', { skip: withoutPython }, () => {
  const { status, stderr } = check('--cases', 'ipc,rdma');
  assert.match(stderr, /--cases: expected some of nccl, ipc, sleep, fp8, cpu, got 'rdma'\n$/);
  assert.equal(status, 2);
});
