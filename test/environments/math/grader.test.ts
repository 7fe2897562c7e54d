import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { describe, test } from 'node:test';
import { isRunning } from '../../harness/process-tree.js';
import { installed, poolFor, skip } from './grader-fixture.js';
import { eventually } from '../../harness/waiting.js';

const signal = new AbortController().signal;
const boxed = (text: string) => ({ gold: '\\boxed{4}', answer: `\\boxed{${text}}` });

/** What a check is: none of these may be worth a reward, least of all 0. */
const PATHOLOGICAL = {
  'a tower of powers': '10^{10^{10}}',
  'a huge sum': '\\sum_{k=1}^{100000000}\\frac{1}{k^2}',
  '5,000 nested parentheses': `${'('.repeat(5000)}1${')'.repeat(5000)}`,
};

/** The one whose second attempt is waited for. */
const REPEATED = 'a tower of powers';

describe('the grader', { skip }, () => {
  for (const [name, answer] of Object.entries(PATHOLOGICAL)) {
    test(`has no verdict on ${name}, and delays no other check by more than its deadline`, async (t) => {
      const pool = poolFor(t, { max_processes: 1 });
      await pool.health(signal);
      const stop = new AbortController();
      const hopeless = assert.rejects(pool.compare(boxed(answer), stop.signal), {
        name: name === REPEATED ? 'EnvironmentRejected' : 'AbortError',
        message: name === REPEATED ? /no verdict .* took more than 5 s; then/ : /aborted/,
      });
      let isOver = false;
      void hopeless.then(() => (isOver = true));
      assert.equal((await pool.compare(boxed('2+2'), signal)).score, 1);
      assert.equal(isOver, false, 'it waited for the second attempt, too');
      if (name !== REPEATED) stop.abort();
      await hopeless;
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
