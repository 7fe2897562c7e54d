/** `run.command` with `sandbox: none`: real programs, their folders, and what is left of them. */
import assert from 'node:assert/strict';
import { readdir, readFile, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Program, ProgramEnd } from '../../src/environments/environment.js';
import {
  createEnvironment,
  EnvironmentSettings,
  resolvePaths,
} from '../../src/environments/registry.js';
import { identify } from '../../src/platform/process/identity.js';
import { bareContext } from '../fakes/environment-context.js';
import { faultText } from '../harness/fault-of.js';
import { eventually } from '../../lab/bed/waiting.js';

const KEY = 'dr1.a-key-of-a-life.1.writer.signature';
const TASK = {
  base_url: 'http://127.0.0.1:1/v1',
  key: KEY,
  prompt: 'mend {folder}',
  message_log: [{ role: 'user', content: 'mend {folder}' }],
  metadata: { file: 'content' },
};
const { signal } = new AbortController();
const serve = (): void => {
  throw new Error('sandbox none has no listener of its own');
};
const over = (): Promise<void> => Promise.resolve();

type Run = Record<string, unknown> & { limits?: object };

async function programOf(t: TestContext, { limits, ...run }: Run): Promise<Program> {
  const settings = EnvironmentSettings.parse({
    kind: 'agent',
    run: { sandbox: 'none', ...run },
    verify: 'tests',
    ...(limits !== undefined && { limits }),
  });
  const environment = await createEnvironment(resolvePaths(settings, '/here'), bareContext());
  t.after(() => environment.close?.());
  assert.ok(environment.program !== undefined);
  return environment.program;
}

let lives = 0;

/** One life, to its end; then it is stopped. */
async function played(t: TestContext, run: Run): Promise<ProgramEnd> {
  const program = await programOf(t, run);
  const name = `b/0-0.${++lives}`;
  await program.start(name, { task: TASK, serve, over, signal });
  try {
    const state = await program.wait(name, { seconds: 30, signal });
    assert.ok(state !== 'gone' && state.state === 'ended');
    return state;
  } finally {
    await program.stop(name, signal);
  }
}

const sh = (script: string): string[] => ['sh', '-c', script];
const isThere = (file: string): Promise<boolean> =>
  stat(file).then(
    () => true,
    () => false,
  );
/** One that nobody has waited for yet has ended, too. */
const living = async (pids: readonly number[]): Promise<number[]> => {
  const found = await Promise.all(pids.map((pid) => identify(pid)));
  return found.filter(({ command }) => command !== '').map(({ pid }) => pid);
};
const shownBy = (t: TestContext, script: string) => played(t, { command: sh(script) });

describe('a program that a worker starts', () => {
  test('has a folder of its own, in which setup writes what the task brings', async (t) => {
    const { exit, submission } = await played(t, {
      setup: [
        'python3',
        '-c',
        'import json,sys; task=json.load(sys.stdin); open("a.txt","w").write(task["metadata"]["file"] + task["prompt"])',
      ],
      command: sh('cat a.txt; echo; pwd; echo more >> a.txt; ls'),
      submit: [
        'python3',
        '-c',
        'import json,sys; print(open(sys.argv[1]).read() + json.load(sys.stdin)["metadata"]["file"])',
        '{folder}/a.txt',
      ],
    });
    const [said, folder = '', ...files] = exit.tail.trim().split('\n');
    assert.equal(exit.code, 0);
    assert.equal(said, 'contentmend {folder}');
    assert.deepEqual(files, ['a.txt']);
    assert.equal(submission, 'contentmend {folder}more\ncontent\n');
    assert.equal(await isThere(path.dirname(folder)), false);
  });

  test('has a home that setup and submit do not share, and they begin with empty ones', async (t) => {
    const look =
      'echo "$HOME $TMPDIR"; ls -A "$HOME" "$TMPDIR"; env | grep -c -e API_KEY -e BASE_URL';
    const leave = 'touch "$HOME/.left" "$TMPDIR/left"';
    const { exit, submission } = await played(t, {
      setup: sh(`(${look}) > from_setup; ${leave}`),
      command: sh(
        `cat from_setup; ${look}; ${leave}; mkdir -p ../submit-home ../submit-tmp; touch ../submit-home/.trap ../submit-tmp/trap`,
      ),
      submit: sh(`pwd; ${look}; echo "$IN_ALL $OF_FOLDER"`),
      env: { KEY: '{key}', IN_ALL: 'all', OF_FOLDER: '{folder}/x', HOME_OF: '{base_url}' },
    });
    const ofPart = (part: string, policy: number): RegExp =>
      new RegExp(`^(\\S+/${part}home) \\S+/${part}tmp\n\\S+home:\n\n\\S+tmp:\n${policy}\n`);
    assert.match(exit.tail, ofPart('setup-', 0));
    assert.match(exit.tail.replace(ofPart('setup-', 0), ''), ofPart('', 4));
    const [cwd = '', ...lines] = (submission ?? '').split('\n');
    assert.match(cwd, /\/submit-home$/);
    assert.match(lines.join('\n'), ofPart('submit-', 0));
    assert.match(submission ?? '', /\nall \n$/);
  });

  test('leaves a pipe where submit reads: the life has failed, and limits.submit is named', async (t) => {
    const { exit } = await played(t, {
      command: sh('mkfifo said.txt'),
      submit: ['cat', '{folder}/said.txt'],
      limits: { submit: '1s' },
    });
    assert.deepEqual(exit, {
      code: 1,
      signal: null,
      tail: 'run.submit: expected it to end within limits.submit 1s, it did not',
    });
  });

  test('is submitted as a patch, made without running anything of its folder', async (t) => {
    const { exit, submission } = await played(t, {
      setup: sh('git init -q; echo one > a'),
      command: sh(
        'printf "#!/bin/sh\necho ran > ../ran\n" > e; chmod +x e; for d in diff.external core.fsmonitor; do git config --global $d "$PWD/e"; git config $d "$PWD/e"; done; rm e; echo two >> a; mkfifo pipe',
      ),
      submit: 'diff',
    });
    assert.equal(exit.code, 0, exit.tail);
    assert.match(submission ?? '', /^diff --git a\/a b\/a\n[^]*\n one\n\+two\n$/);
  });

  test('finds the policy by its variables, and its task by what is filled in, once', async (t) => {
    const { exit } = await played(t, {
      command: [
        'sh',
        '-c',
        'printf "%s\\n" "$@"; env',
        '{here}',
        '{prompt}',
        '{base_url}',
        '{other}',
        '{"a": {}}',
      ],
      env: { OWN: '{folder}/x', LANG: 'C' },
    });
    const lines = exit.tail.split('\n');
    assert.deepEqual(lines.slice(0, 4), ['mend {folder}', TASK.base_url, '{other}', '{"a": {}}']);
    const variables = new Map(
      lines.slice(4).map((line) => [line.split('=')[0], line.replace(/^\w+=/, '')]),
    );
    assert.equal(variables.get('OPENAI_BASE_URL'), 'http://127.0.0.1:1/v1');
    assert.equal(variables.get('ANTHROPIC_BASE_URL'), 'http://127.0.0.1:1');
    assert.equal(variables.get('OPENAI_API_KEY'), '(key)');
    assert.match(variables.get('OWN') ?? '', /\/work\/x$/);
    assert.equal(variables.get('LANG'), 'C');
  });

  test('sees none of the worker’s variables', async (t) => {
    process.env['A_SECRET_OF_THE_WORKER'] = 'hidden';
    t.after(() => delete process.env['A_SECRET_OF_THE_WORKER']);
    const { exit } = await shownBy(t, 'env');
    assert.doesNotMatch(exit.tail, /A_SECRET_OF_THE_WORKER/);
  });

  for (const [name, script, exit] of [
    ['its exit code', 'echo why; exit 7', { code: 7, signal: null, tail: 'why\n' }],
    ['its signal', 'echo why; kill -TERM $$', { code: null, signal: 'SIGTERM', tail: 'why\n' }],
    ['SIGKILL', 'echo why; kill -KILL $$', { code: null, signal: 'SIGKILL', tail: 'why\n' }],
    ['that it was not found', './none', { code: 127 }],
  ] as const)
    test(`ends with ${name}`, async (t) => {
      const ended = await shownBy(t, script);
      assert.deepEqual({ ...ended.exit, ...exit }, ended.exit);
    });

  test('may print 100 MB, of which the end is kept without the key', async (t) => {
    const { exit } = await shownBy(
      t,
      `head -c 100000000 /dev/zero | tr '\\0' x; echo; echo key ${KEY}`,
    );
    assert.equal(exit.code, 0);
    assert.match(exit.tail, /x\nkey \(key\)\n$/);
    assert.ok(exit.tail.length <= 4000);
  });

  test('leaves nothing behind: not in the background, not with a session of its own', async (t) => {
    const { exit } = await shownBy(
      t,
      'sleep 300 & echo $!; setsid sleep 300 & sleep 0.2; pgrep -f "sleep 300" -P $$ | tail -1; (setsid sleep 301 & echo $!) ; exit 0',
    );
    assert.equal(exit.code, 0);
    const pids = exit.tail.trim().split('\n').map(Number);
    assert.ok(pids.length >= 2 && pids.every((pid) => pid > 1));
    assert.deepEqual(await living(pids), []);
  });

  test('is ended with all of it, and its folder, whenever it is stopped', async (t) => {
    const program = await programOf(t, {
      command: sh('sleep 300 & echo $! > pids; echo $$ >> pids; pwd > ../where; wait'),
    });
    const name = `b/0-0.${++lives}`;
    const before = await basesOf();
    await program.start(name, { task: TASK, serve, over, signal });
    const base = await eventually(
      'a folder',
      async () => (await basesOf()).find((one) => !before.includes(one)) ?? null,
    );
    await eventually('its processes', () => isThere(path.join(base, 'where')));
    const pids = (await readFile(path.join(base, 'work', 'pids'), 'utf8')).trim().split('\n');
    assert.deepEqual(await program.wait(name, { seconds: 0, signal }), { state: 'running' });
    await program.stop(name, signal);
    assert.deepEqual(await living(pids.map(Number)), []);
    assert.equal(await isThere(base), false);
    assert.equal(await program.wait(name, { seconds: 0, signal }), 'gone');
  });

  test('leaves nothing behind when its guard is killed', async (t) => {
    const program = await programOf(t, {
      command: sh(
        'sleep 300 & echo $! > pids; setsid sleep 300 & echo $! >> pids; echo $PPID > guard; mv guard ..; wait',
      ),
    });
    const name = `b/0-0.${++lives}`;
    const before = await basesOf();
    await program.start(name, { task: TASK, serve, over, signal });
    const base = await eventually(
      'a folder',
      async () => (await basesOf()).find((one) => !before.includes(one)) ?? null,
    );
    const guard = await eventually('its guard', () =>
      readFile(path.join(base, 'guard'), 'utf8').catch(() => null),
    );
    const pids = (await readFile(path.join(base, 'work', 'pids'), 'utf8')).trim().split('\n');
    process.kill(Number(guard), 'SIGKILL');
    const state = await program.wait(name, { seconds: 120, signal });
    assert.ok(state !== 'gone' && state.state === 'ended');
    assert.deepEqual([state.exit.signal, pids.length], ['SIGKILL', 2]);
    await program.stop(name, signal);
    assert.deepEqual(await living(pids.map(Number)), []);
    assert.equal(await isThere(base), false);
  });

  test('that is cut behind a limit still submits what it has', async (t) => {
    const program = await programOf(t, {
      command: sh('echo half > a; echo said; echo > ../said; sleep 300'),
      submit: ['cat', '{folder}/a'],
    });
    const name = `b/0-0.${++lives}`;
    const before = await basesOf();
    await program.start(name, { task: TASK, serve, over, signal });
    const said = async (): Promise<boolean> => {
      const base = (await basesOf()).find((one) => !before.includes(one));
      return base !== undefined && (await isThere(path.join(base, 'said')));
    };
    await eventually('what it says', said);
    const { exit, submission } = await program.cut!(name, signal);
    await program.stop(name, signal);
    assert.deepEqual([exit.signal, exit.tail, submission], ['SIGKILL', 'said\n', 'half\n']);
  });
});

describe('what is around a program fails', () => {
  const failing: [name: string, run: Run, is: RegExp][] = [
    [
      'setup that fails',
      { setup: sh('echo no space; exit 3'), command: ['true'] },
      /^EnvironmentFailed: environments\..*\.run\.setup: it failed \(exit 3\); it printed at its end: no space$/,
    ],
    [
      'a program that is not installed',
      { command: ['no-such-agent'] },
      /^EnvironmentUnavailable: environments\..*\.run\.command: expected a program on PATH, named no-such-agent, which is not on this host/,
    ],
    [
      'a submit that is not installed',
      { command: ['true'], submit: ['/no/diff'] },
      /run\.submit: expected a program at \/no\/diff/,
    ],
    [
      'a program that setup did not bring',
      { command: ['./run'] },
      /^EnvironmentRejected: .*\.\/run cannot be started: there is no such program/,
    ],
    [
      'an argument that is too long',
      { command: ['true', 'x'.repeat(200_000)] },
      /^EnvironmentRejected: .*128 KiB on Linux\); have `setup` write it to a file/,
    ],
  ];
  for (const [name, run, is] of failing)
    test(`by name: ${name}`, async (t) => {
      assert.match(await faultText(played(t, run)), is);
    });

  for (const [name, submit, is] of [
    [
      'fails',
      sh('echo not a repository >&2; exit 128'),
      {
        code: 128,
        signal: null,
        tail: 'run.submit: it failed (exit 128); it printed at its end: not a repository',
      },
    ],
    [
      'prints 2 MiB',
      sh('head -c 2097152 /dev/zero'),
      {
        code: 1,
        signal: null,
        tail: 'run.submit: expected at most 1048576 bytes, it printed more',
      },
    ],
  ] as const)
    test(`so that its life has failed: a submit that ${name}`, async (t) => {
      const { exit, submission } = await played(t, { command: ['true'], submit });
      assert.deepEqual([exit, submission], [is, null]);
    });

  test('so that a program’s own failure comes first', async (t) => {
    const { exit } = await played(t, { command: sh('echo own; exit 2'), submit: ['false'] });
    assert.deepEqual(exit, { code: 2, signal: null, tail: 'own\n' });
  });

  test('health says of what package a known agent is', async (t) => {
    const program = await programOf(t, { command: ['mini'], env: { PATH: '/nowhere' } });
    await assert.rejects(program.health(signal), {
      message:
        /named mini, which is not .*: install it \(pip install mini-swe-agent, into a folder/,
    });
  });

  test('health says what is absent', async (t) => {
    const program = await programOf(t, { command: ['no-such-agent'] });
    assert.match(
      await faultText(program.health(signal)),
      /expected a program on PATH, named no-such-agent/,
    );
    await (await programOf(t, { command: ['sh'] })).health(signal);
  });
});

const basesOf = async (): Promise<string[]> =>
  (await readdir(tmpdir()))
    .filter((name) => name.startsWith('rollout-program-'))
    .map((name) => path.join(tmpdir(), name));
