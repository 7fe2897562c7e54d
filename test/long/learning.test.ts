/** The example that learns, from its command to its plot, with one kill and only real processes. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile, readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { describe, test } from 'node:test';
import { PolicyRecord } from '../../src/model/policy/record.js';
import { MAIN } from '../../lab/bed/command.js';
import { learningPython, noLearningExample } from '../harness/learning-python.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

const STEPS = 18;
/** From 0.05. The whole lesson has 50 steps and comes to over 0.9. */
const TARGET = 0.15;
const ASLEEP_STEPS = 10;
const ASLEEP_TARGET = 0.1;

interface Report {
  steps: number;
  tokens: number;
  missing: number;
  doubled: number;
  mislabelled: number;
  ratio_error: number;
  ratio_tokens: number;
  lag_max: number;
  held_out: number[];
  wrong: string[];
}

/** The whole command; the report is of its check of each token against the engine's log. */
async function learns(args: readonly string[]): Promise<{ output: string; report: Report }> {
  const child = spawn(process.execPath, [MAIN, 'learning', ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [output, errors, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  assert.equal(code, 0, `${output}${errors}`);
  const line = output.split('\n').find((one) => one.startsWith('{')) ?? '';
  return { output, report: JSON.parse(line) as Report };
}

function isExact({ steps, missing, doubled, mislabelled, wrong }: Report, of: number): void {
  assert.deepEqual(wrong, []);
  assert.equal(steps, of);
  assert.deepEqual({ missing, doubled, mislabelled }, { missing: 0, doubled: 0, mislabelled: 0 });
}

describe('the example that learns', { skip: noLearningExample }, () => {
  test('learns without a server, and nothing from shuffled advantages', () => {
    const tests = path.join('tests', 'long');
    assert.match(learningPython(['-m', 'unittest', 'discover', '-s', tests]), /\nRan 2 tests in /);
  });

  test('learns while its engine is killed, and every token of its rows is the engine’s, under its version', async (t) => {
    const directory = await makeTemporaryDirectory('learning');
    t.after(() => directory.remove());
    const folder = path.join(directory.path, 'short');
    const args = [
      '--chaos',
      '--kills',
      '1',
      '--kill-every',
      '15',
      '--tick',
      '0.02',
      '--no-comparison',
    ];
    const lesson = ['--steps', String(STEPS), '--target', String(TARGET), '--folder', folder];
    const { output, report } = await learns([...args, ...lesson]);
    assert.match(output, /engine ended by SIGKILL; it starts again/);
    isExact(report, STEPS);
    assert.ok(report.tokens > 32 * STEPS && report.ratio_tokens > 0 && report.lag_max <= 2);
    const [first = 1] = report.held_out;
    assert.ok(first < 0.1, report.held_out.join(' '));
    const kills = (await readFile(path.join(folder, 'kills.jsonl'), 'utf8')).trim().split('\n');
    assert.equal(kills.length, 1);
    assert.ok((await stat(path.join(folder, 'plot.png'))).size > 10_000);
  });

  test('learns as much where its engine sleeps around each step and its trainer sends the weights', async (t) => {
    const directory = await makeTemporaryDirectory('learning-asleep');
    t.after(() => directory.remove());
    const folder = path.join(directory.path, 'asleep');
    const sleeps = ['--sleep', '2', '--send', '--steps', String(ASLEEP_STEPS)];
    const { report } = await learns([
      ...sleeps,
      '--target',
      String(ASLEEP_TARGET),
      '--folder',
      folder,
    ]);
    isExact(report, ASLEEP_STEPS);
    const records = path.join(folder, 'trajectories', '_policy', 'default');
    const texts = await Promise.all(
      (await readdir(records)).map((name) => readFile(path.join(records, name), 'utf8')),
    );
    const slept = texts.flatMap((text) => PolicyRecord.parse(JSON.parse(text)).sleep?.nonce ?? []);
    assert.equal(new Set(slept).size, ASLEEP_STEPS);
  });
});
