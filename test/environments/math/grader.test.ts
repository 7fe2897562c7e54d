import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { startGraderProcess } from '../../../src/environments/math/grader-process.js';
import { isRunning } from '../../../lab/bed/process-tree.js';
import { installed, poolFor, skip } from './grader-fixture.js';
import { eventually } from '../../../lab/bed/waiting.js';

const signal = new AbortController().signal;
const boxed = (text: string) => ({ gold: '\\boxed{4}', answer: `\\boxed{${text}}` });

/** On a busy machine reading an answer may take as long. */
const TOO_LONG = /^timeout: (parsing the answer|comparing) took more than 1 s$/;

/** None of these may be worth a reward, least of all 0. */
const PATHOLOGICAL = {
  'a tower of powers': '10^{10^{10}}',
  'a huge sum': '\\sum_{k=1}^{100000000}\\frac{1}{k^2}',
  '5,000 nested parentheses': `${'('.repeat(5000)}1${')'.repeat(5000)}`,
};

describe('the grader', { skip }, () => {
  for (const [what, answer] of Object.entries(PATHOLOGICAL)) {
    test(`has no verdict on ${what} once its seconds are over, and ends`, async () => {
      assert.ok(installed !== null);
      const command = { ...installed, args: [...installed.args, '--compare-seconds', '1'] };
      const limits = { deadline_ms: 60_000, start_timeout_ms: 60_000 };
      const grader = startGraderProcess(command, limits);
      await grader.ready;
      const outcome = await grader.check(boxed(answer));
      assert.ok('failed' in outcome);
      assert.match(outcome.failed, TOO_LONG);
      await grader.ended;
    });
  }

  test('counts no answer as wrong that took suspiciously much memory', async (t) => {
    assert.ok(installed !== null);
    const command = { ...installed, args: [...installed.args, '--suspect-mib', '100'] };
    const pool = poolFor(t, { max_processes: 1, command: () => command });
    // math-verify takes memory that it did not get for "not equal".
    await assert.rejects(pool.compare(boxed('9'.repeat(100_000)), signal), {
      type: 'EnvironmentRejected',
      message: /memory: more than 100 MiB; then memory/,
    });
    assert.equal((await pool.compare(boxed('2+2'), signal)).score, 1);
  });

  test('ends with the process that started it, also in the middle of a check', async () => {
    assert.ok(installed !== null);
    const { program, args } = installed;
    const [unbuffered = '', script = ''] = args;
    // A parent that starts a grader, gives it a hopeless check and is killed.
    const parent = spawn(
      process.execPath,
      [
        '-e',
        `const child = require('node:child_process').spawn(process.argv[1], [process.argv[2], process.argv[3], '--parent', String(process.pid)]);
         child.stdout.once('data', () => {
           child.stdin.write(process.argv[4] + '\\n');
           setTimeout(() => console.log(child.pid), 500);
         });
         setInterval(() => {}, 1000);`,
        program,
        unbuffered,
        script,
        JSON.stringify({ id: 1, ...boxed('10^{10^{10}}') }),
      ],
      { stdio: ['ignore', 'pipe', 'inherit'] },
    );
    const [data] = (await once(parent.stdout, 'data')) as [Buffer];
    const pid = Number(data.toString());
    assert.ok(isRunning(pid));
    parent.kill('SIGKILL');
    await eventually('its end', () => !isRunning(pid));
  });

  test('sees nothing of the environment of its worker but what Python needs', () => {
    const names = Object.keys(installed?.env ?? {}).sort();
    const allowed = [
      'DYLD_LIBRARY_PATH',
      'HOME',
      'LD_LIBRARY_PATH',
      'PATH',
      'PYTHONHASHSEED',
      'TMPDIR',
    ];
    assert.deepEqual(
      names.filter((name) => !allowed.includes(name)),
      [],
    );
  });
});
