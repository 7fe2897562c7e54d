/** The example that learns, on a real vLLM: a short form of its command. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { MAIN } from '../../lab/bed/command.js';
import { learningPython, noLearningExample } from '../harness/learning-python.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { suite } from './engine.js';

const STEPS = 25;
/** From 0.03. */
const TARGET = 0.15;

const PYTHON = process.env['ROLLOUT_LEARNING_PYTHON'] ?? '';

/** For the option `skip`: why it cannot run, or false. */
const WITHOUT_VLLM: string | false =
  PYTHON === '' || (process.env['ROLLOUT_LEARNING_START'] ?? '') === ''
    ? 'no vLLM that learns: set ROLLOUT_LEARNING_START and ROLLOUT_LEARNING_PYTHON (examples/learning/README.md)'
    : noLearningExample;

interface Report {
  steps: number;
  tokens: number;
  mislabelled: number;
  unlabelled: number;
  versions: number;
  logprob_error: number;
  ratio_error: number;
  ratio_tokens: number;
  lag_max: number;
  held_out: number[];
  wrong: string[];
}

suite('the example that learns, on a real vLLM', {
  skip: WITHOUT_VLLM,
  timeout: 30 * 60_000,
  tests: () => {
    test('has a policy that passes its tests, which need torch', () => {
      const args = ['-m', 'unittest', 'discover', '-s', 'tests', '-p', 'test_qwen.py'];
      assert.match(learningPython(args, PYTHON), /\nRan [1-9]\d* tests in .*\n\nOK\n/s);
    });

    test('learns, and each token is that of the weights that its label names', async (t) => {
      const directory = await makeTemporaryDirectory('learning-vllm');
      t.after(() => directory.remove());
      const lesson = ['--steps', String(STEPS), '--target', String(TARGET)];
      const folder = path.join(directory.path, 'short');
      const args = [MAIN, 'learning', '--engine', 'vllm', ...lesson, '--folder', folder];
      const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'pipe'] });
      const [output, errors, [code]] = await Promise.all([
        text(child.stdout),
        text(child.stderr),
        once(child, 'close') as Promise<[number | null]>,
      ]);
      assert.equal(code, 0, `${output}${errors}`);
      const line = output.split('\n').find((one) => one.startsWith('{')) ?? '';
      const report = JSON.parse(line) as Report;
      assert.deepEqual(report.wrong, []);
      const { steps, mislabelled, unlabelled } = report;
      assert.deepEqual(
        { steps, mislabelled, unlabelled },
        { steps: STEPS, mislabelled: 0, unlabelled: 0 },
      );
      assert.ok(report.versions >= STEPS - 2 && report.lag_max <= 2);
      assert.ok(report.tokens > 32 * STEPS && report.logprob_error < 1e-3);
      assert.ok(report.ratio_tokens > 0 && report.ratio_error < 1e-3);
      const [first = 1] = report.held_out;
      assert.ok(first < 0.1, report.held_out.join(' '));
      console.log(report);
    });
  },
});
