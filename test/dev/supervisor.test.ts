import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { startChild } from '../../dev/child.js';
import { runCommand } from '../../src/platform/process/run-command.js';
import { cutLarge } from '../../dev/child.js';
import type { Part } from '../../dev/supervisor.js';
import { createSupervisor } from '../../dev/supervisor.js';
import { isRunning } from '../../lab/bed/process-tree.js';
import { temporaryFolder } from './fakes.js';
import { eventually } from '../../lab/bed/waiting.js';

/** Appends its pid to `pids`, then does what `source` says. */
const program = (pids: string, source: string): string =>
  `require('node:fs').appendFileSync(${JSON.stringify(pids)}, process.pid + '\\n'); ${source}`;

const FOR_EVER = 'setInterval(() => undefined, 1000);';
const DEAF = `process.on('SIGTERM', () => undefined); ${FOR_EVER}`;

/** A part that says that it works, if `when` holds, and then does this, in the language of the shell. */
const worksThat = (
  shellPart: (source: string) => Part,
  { does, when = 'true' }: { does: string; when?: string },
): Part => ({
  ...shellPart(`if ${when}; then echo I work; fi; ${does}`),
  ready: /^I work$/m,
});

const worked = async (folder: string): Promise<number> =>
  (await readFile(path.join(folder, 'part.log'), 'utf8')).split('I work').length - 1;

/** In seconds, until the next start. */
const delaysIn = (said: readonly string[]): number[] =>
  said.flatMap((line) => / starts again in ([\d.]+) s /.exec(line)?.[1] ?? []).map(Number);

async function scene(t: TestContext, { restartDelayMs = 20 } = {}) {
  const folder = await temporaryFolder(t);
  const said: string[] = [];
  const givenUp: Error[] = [];
  const supervisor = createSupervisor({
    say: (line) => said.push(line),
    giveUp: (reason) => givenUp.push(reason),
    restartDelayMs,
    graceMs: 300,
  });
  t.after(() => supervisor.stop());
  const pidsFile = path.join(folder, 'pids');
  const pids = async (): Promise<number[]> =>
    (await readFile(pidsFile, 'utf8').catch(() => '')).split('\n').filter(Boolean).map(Number);
  const partOf = (command: string, args: string[]): Part => {
    const logFile = path.join(folder, 'part.log');
    const child = { command, args, cwd: folder, env: process.env, logFile, ends: 'pipe' } as const;
    return { name: 'part', logFile, start: () => startChild(child) };
  };
  const part = (source: string): Part =>
    partOf(process.execPath, ['-e', program(pidsFile, source)]);
  /** For many lives: a shell starts in a twentieth of the time. */
  const shellPart = (source: string): Part =>
    partOf('/bin/sh', ['-c', `echo $$ >> pids; ${source}`]);
  return { folder, supervisor, said, givenUp, pids, pidsFile, part, shellPart };
}

test('a log that has grown large begins anew while its process writes on (eric-tramel/moraine#166)', async (t) => {
  const folder = await temporaryFolder(t);
  const logFile = path.join(folder, 'part.log');
  const source = `for (let n = 0; ; n++) { console.log('line', n); await new Promise((tick) => setTimeout(tick, 5)); }`;
  const args = ['--input-type=module', '-e', source];
  const child = await startChild({
    command: process.execPath,
    args,
    cwd: folder,
    env: process.env,
    logFile,
    ends: 'pipe',
  });
  t.after(() => child.stop(0));
  const read = (file: string): Promise<string> => readFile(file, 'utf8');
  await eventually('a hundred lines', async () => (await read(logFile)).includes('line 100\n'));
  await cutLarge(logFile, 2 ** 20);
  assert.ok((await read(logFile)).startsWith('line 0\n'), 'it is not large');
  await cutLarge(logFile, 100);
  assert.ok((await read(`${logFile}.1`)).startsWith('line 0\n'));
  const next = await eventually('the next line', async () => (await read(logFile)) || null);
  assert.match(next, /^line \d{3}\n/);
  await child.stop(0);
  assert.match((await child.lastWords()) ?? '', /^line \d{3}/);
});

describe('the supervisor', () => {
  test('starts a part again when it dies, aloud, and leaves no process behind', async (t) => {
    const { supervisor, said, pids, part } = await scene(t);
    await supervisor.run(part(FOR_EVER));
    await eventually('the part runs', async () => (await pids()).length === 1);
    const [first = 0] = await pids();
    assert.equal(supervisor.pidOf('part'), first);
    assert.equal(supervisor.pidOf('another'), null);
    process.kill(first, 'SIGKILL');
    await eventually('it runs again', async () => (await pids()).length === 2);
    await supervisor.stop();
    assert.match(
      said.join('\n'),
      /part ended by SIGKILL; it starts again in 0\.02 s \(log: .*part\.log\)/,
    );
    assert.match(said.join('\n'), /part runs again \(process \d+\)/);
    for (const pid of await pids()) assert.equal(isRunning(pid), false, `process ${pid} is gone`);
  });

  for (const [what, source, says] of [
    [
      'a corrupted async hook stack',
      `console.log('{"level":30,"msg":"worker runs"}');
      console.error('Error: async hook stack has become corrupted (actual: 12, expected: 7)\\n----- Native stack trace -----\\n\\n 1: 0xc20e2d node::AsyncHooks [node]\\n\\n----- JavaScript stack trace -----\\n\\n1: runScript (node:internal:5:9)\\n');
      console.log('{"level":30,"msg":"one more"}'); process.exit(7);`,
      /^part ended with exit code 7 \(Error: async hook stack has become corrupted \(actual: 12, expected: 7\)\); it starts again in 0\.02 s \(log: [^)]*\)\. A workflow task took longer than 60 s: .* more CPUs or fewer rollouts at once \(max_in_flight\), or use Node\.js 24, /,
    ],
    [
      'a context that was not left',
      `class IllegalStateError extends Error { name = 'IllegalStateError'; }
      throw new IllegalStateError('Workflow execution context should have been disposed first');`,
      /^part ended with exit code 1 \(IllegalStateError: Workflow execution context should have been disposed first\); it starts again in 0\.02 s \(log: [^)]*\)\. A workflow task took longer than 60 s: /,
    ],
    [
      'an uncaught error',
      `console.error('before'); throw new TypeError('no such thing', { cause: new Error('why') });`,
      /^part ended with exit code 1 \(TypeError: no such thing\); it starts again in 0\.02 s \(log: [^)]*\)$/,
    ],
    [
      'nothing',
      `console.log('{"level":30}'); process.exit(4);`,
      /^part ended with exit code 4; it/,
    ],
  ] as const) {
    test(`says how a part ended and its last words, where they are ${what}`, async (t) => {
      const { folder, supervisor, said, part } = await scene(t);
      await writeFile(path.join(folder, 'part.log'), 'Error: of an earlier life\n');
      await supervisor.run(part(source));
      await eventually('it has ended', () => said.length > 0);
      await supervisor.stop();
      assert.match(said[0] ?? '', says);
    });
  }

  test('ends a part that ignores SIGTERM, and what that part started', async (t) => {
    const { supervisor, pids, pidsFile, part } = await scene(t);
    const grandchild = JSON.stringify(program(pidsFile, DEAF));
    await supervisor.run(
      part(`require('node:child_process').spawn(process.execPath, ['-e', ${grandchild}]); ${DEAF}`),
    );
    await eventually('both run', async () => (await pids()).length === 2);
    await supervisor.stop();
    for (const pid of await pids())
      await eventually(`process ${pid} is gone`, () => !isRunning(pid));
  });

  test('gives up on a part that ends each time before it is ready, with growing delays, and shows the end of its log', async (t) => {
    const { supervisor, said, givenUp, pids, shellPart } = await scene(t);
    await supervisor.run(shellPart("echo 'temporal.yaml is not valid' >&2; exit 2"));
    await eventually('it gives up', () => givenUp.length > 0);
    assert.match(
      givenUp[0]?.message ?? '',
      /part ended with exit code 2: the last of 6 lives in a row/,
    );
    assert.match(givenUp[0]?.message ?? '', /temporal\.yaml is not valid/);
    assert.equal((await pids()).length, 6);
    assert.deepEqual(delaysIn(said), [0.02, 0.04, 0.08, 0.16, 0.3]);
  });

  test('goes on for ever with a part that is killed as soon as it works, without a longer delay', async (t) => {
    const { supervisor, said, givenUp, folder, shellPart } = await scene(t);
    await supervisor.run(worksThat(shellPart, { does: 'exec sleep 600' }));
    for (let kill = 1; kill <= 18; kill++) {
      await eventually(
        `it works for the ${kill}th time`,
        async () => (await worked(folder)) === kill,
      );
      process.kill(supervisor.pidOf('part') ?? 0, 'SIGKILL');
    }
    await eventually('it works again', async () => (await worked(folder)) === 19);
    assert.deepEqual([givenUp, new Set(delaysIn(said))], [[], new Set([0.02])]);
  });

  test('goes on with a part that ends by itself, if it worked before', async (t) => {
    const { supervisor, givenUp, folder, shellPart } = await scene(t);
    await supervisor.run(worksThat(shellPart, { does: 'exit 3' }));
    await eventually('it has worked often', async () => (await worked(folder)) > 7);
    assert.deepEqual(givenUp, []);
  });

  test('starts a part that ends soon after it works again and again, with growing delays, and says how often', async (t) => {
    const { supervisor, said, givenUp, shellPart } = await scene(t, { restartDelayMs: 5 });
    await supervisor.run(worksThat(shellPart, { does: 'kill -ABRT $$' }));
    await eventually('it has ended often', () => delaysIn(said).length > 6);
    assert.deepEqual(delaysIn(said).slice(0, 7), [0.005, 0.01, 0.02, 0.04, 0.075, 0.075, 0.075]);
    const ends = said.filter((line) => line.includes('starts again'));
    assert.match(ends[0] ?? '', /^part ended by SIGABRT[^,]*; it starts again/);
    for (const times of [2, 3, 4])
      assert.match(
        ends[times - 1] ?? '',
        new RegExp(`, ${times} times in a row within 10 s of its start; it starts`),
      );
    assert.deepEqual(givenUp, []);
  });

  test('begins to count anew when a part has worked', async (t) => {
    const { supervisor, said, givenUp, pids, shellPart } = await scene(t);
    await supervisor.run(
      worksThat(shellPart, { does: 'exit 3', when: 'test $(($(wc -l < pids) % 4)) = 0' }),
    );
    await eventually('it has ended often', async () => (await pids()).length > 9);
    assert.deepEqual(givenUp, []);
    assert.deepEqual(delaysIn(said).slice(0, 7), [0.02, 0.04, 0.08, 0.02, 0.02, 0.04, 0.08]);
  });

  test('gives up on a part that is killed each time before it works, but after sixty times, without longer delays', async (t) => {
    const { supervisor, said, givenUp, pids, shellPart } = await scene(t, { restartDelayMs: 1 });
    await supervisor.run(worksThat(shellPart, { does: 'kill -KILL $$', when: 'false' }));
    await eventually('it gives up', () => givenUp.length > 0);
    assert.match(givenUp[0]?.message ?? '', /part ended by SIGKILL: the last of 61 lives in a row/);
    assert.equal((await pids()).length, 61);
    assert.equal(Math.max(...delaysIn(said)), 0.001);
  });

  test('does not take what an earlier life said for a sign that this one works', async (t) => {
    const { supervisor, folder, givenUp, shellPart } = await scene(t, { restartDelayMs: 1 });
    await writeFile(path.join(folder, 'part.log'), 'I work\n');
    await supervisor.run(worksThat(shellPart, { does: 'exit 3', when: 'false' }));
    await eventually('it gives up', () => givenUp.length > 0);
  });

  test('does not start a part again that has come to its end, and says so; one that fails it does', async (t) => {
    const { supervisor, said, pids, shellPart } = await scene(t);
    let finished = 0;
    await supervisor.run({
      ...shellPart('if test $(wc -l < pids) -gt 1; then exit 0; else exit 3; fi'),
      finished: () => {
        finished += 1;
      },
    });
    await eventually('it has come to its end', () => finished > 0);
    assert.equal(supervisor.pidOf('part'), null);
    assert.equal((await pids()).length, 2);
    assert.equal(said.filter((line) => line.includes('starts again')).length, 1);
  });

  test('does not start a part that dies while everything is stopped', async (t) => {
    const { supervisor, said, pids, part } = await scene(t);
    await supervisor.run(part(FOR_EVER));
    await eventually('the part runs', async () => (await pids()).length === 1);
    await supervisor.stop();
    assert.equal((await pids()).length, 1);
    assert.deepEqual(said, []);
  });

  test('renews a part at once and without a word of its death, and one that does not run not at all', async (t) => {
    const { supervisor, said, pids, part } = await scene(t, { restartDelayMs: 60_000 });
    await supervisor.renew('part');
    await supervisor.run(part(FOR_EVER));
    await eventually('the part runs', async () => (await pids()).length === 1);
    const [first = 0] = await pids();
    await supervisor.renew('part');
    assert.equal(isRunning(first), false);
    await eventually('it runs again', async () => (await pids()).length === 2);
    await eventually('it is said', () => said.length > 0);
    assert.match(said.join(), /^part runs again \(process \d+\)$/);
  });

  test('says which program cannot be started', async (t) => {
    const { folder, supervisor } = await scene(t);
    const logFile = path.join(folder, 'log');
    const start = () =>
      startChild({
        command: path.join(folder, 'missing'),
        args: [],
        cwd: folder,
        env: {},
        logFile,
        ends: 'pipe',
      });
    await assert.rejects(
      supervisor.run({ name: 'part', logFile, start }),
      /missing cannot be started: .*ENOENT/,
    );
  });
});

describe('a part ends with its parent', () => {
  /** A parent that starts one child and is then killed. */
  async function orphan(
    t: TestContext,
    { ends, source }: { ends: 'pipe' | 'kernel'; source: string },
  ) {
    const { folder, pids, pidsFile } = await scene(t);
    const child = path.join(folder, 'child.mjs');
    const parent = path.join(folder, 'parent.mjs');
    await writeFile(child, source.replace('PIDS', JSON.stringify(pidsFile)));
    const options = {
      command: process.execPath,
      args: [child],
      cwd: folder,
      env: process.env,
      logFile: path.join(folder, 'log'),
      ends,
    };
    await writeFile(
      parent,
      `import { startChild } from ${JSON.stringify(import.meta.resolve('../../dev/child.js'))};
       await startChild(${JSON.stringify(options)}); ${FOR_EVER}`,
    );
    const running = spawn(process.execPath, [parent], {
      stdio: 'inherit',
    });
    await eventually('the child runs', async () => (await pids()).length === 1);
    const [pid = 0] = await pids();
    t.after(() => {
      if (isRunning(pid)) process.kill(pid, 'SIGKILL');
    });
    running.kill('SIGKILL');
    return pid;
  }

  const setpriv = {
    command: 'setpriv',
    args: ['--pdeathsig', 'TERM', '--', 'true'],
    timeoutMs: 5000,
  };
  const writePid =
    "import { appendFileSync } from 'node:fs'; appendFileSync(PIDS, process.pid + '\\n');";

  test('by its lifeline, also when the parent is killed', async (t) => {
    const lifeline = JSON.stringify(import.meta.resolve('../../src/platform/process/lifeline.js'));
    const source = `import { untilShutdown } from ${lifeline};
      const alive = setInterval(() => undefined, 1000);
      untilShutdown(process.env).addEventListener('abort', () => clearInterval(alive)); ${writePid}`;
    const pid = await orphan(t, { ends: 'pipe', source });
    await eventually('the child is gone', () => !isRunning(pid));
  });

  test('by the kernel, where it is not ours', async (t) => {
    if (!(await runCommand(setpriv)).ok) {
      t.skip('no setpriv here');
      return;
    }
    const pid = await orphan(t, { ends: 'kernel', source: `${writePid} ${FOR_EVER}` });
    await eventually('the child is gone', () => !isRunning(pid));
  });
});
