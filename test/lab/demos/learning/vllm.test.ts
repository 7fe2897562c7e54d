import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { describe, test } from 'node:test';
import { learningCommand } from '../../../../lab/demos/learning/command.js';
import { vllmOf, vllmPart } from '../../../../lab/demos/learning/vllm.js';
import { temporaryFolder } from '../../../dev/fakes.js';

describe('a vLLM in place of the example’s engine', () => {
  test('is named by two variables; of one that is not set it says what is expected', () => {
    const both = { ROLLOUT_LEARNING_START: 'serve', ROLLOUT_LEARNING_PYTHON: 'python' };
    assert.deepEqual(vllmOf(both), { start: 'serve', python: 'python' });
    assert.throws(
      () => vllmOf({ ...both, ROLLOUT_LEARNING_START: '' }),
      /^Error: ROLLOUT_LEARNING_START: expected a command that serves .*\$MODEL.*\$PORT, got nothing$/,
    );
    assert.throws(
      () => vllmOf({ ROLLOUT_LEARNING_START: 'serve' }),
      /^Error: ROLLOUT_LEARNING_PYTHON: expected a Python that has torch/,
    );
  });

  test('is started by its command, which has model and port', async (t) => {
    const logs = await temporaryFolder(t);
    const vllm = { start: 'echo "$MODEL at $PORT"', python: 'python' };
    const part = vllmPart(vllm, { model: '/models/a b', port: 8123, logs });
    const child = await part.start(new AbortController().signal);
    assert.deepEqual(await child.exited, { code: 0, signal: null });
    assert.equal(await readFile(part.logFile, 'utf8'), '/models/a b at 8123\n');
  });

  test('is the only one that can be asked for, and neither killed nor slowed down', async () => {
    await assert.rejects(
      learningCommand(['--engine', 'sglang']),
      /--engine: expected one of example, torch, vllm, got "sglang"/,
    );
    for (const beside of [['--chaos'], ['--tick', '1']])
      await assert.rejects(
        learningCommand(['--engine', 'vllm', ...beside]),
        /--engine vllm: expected neither --chaos nor --tick/,
      );
  });
});
