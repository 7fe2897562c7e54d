import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, beforeEach, describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createFolders } from '../../src/sandbox/folders.js';
import type { Level } from '../../src/sandbox/levels.js';
import { findPythons, readProgram } from '../../src/sandbox/python.js';
import { eventually } from '../../lab/bed/waiting.js';
import { codeBed, LEVELS_HERE, processesNamed } from '../environments/code/code-bed.js';
import { startWorkerProcess } from '../environments/code/worker-process.js';

/** Hostile code against what starts it and cleans up after it: the worker, the guard, the removal of folders. */

const scratch = mkdtempSync(path.join(tmpdir(), 'code-attacks-'));
// Any user that code may run as could write there.
chmodSync(scratch, 0o1777);
beforeEach(() => {
  // Folders of its own sandboxes, and of no others.
  process.env['TMPDIR'] = mkdtempSync(path.join(scratch, 'tmp-'));
  chmodSync(tmpdir(), 0o1777);
});
after(() => {
  execFileSync('chmod', ['-R', 'u+rwX', scratch]);
  rmSync(scratch, { recursive: true });
});

const isRoot = process.getuid?.() === 0;

const folders = (): string[] =>
  readdirSync(tmpdir())
    .filter((name) => name.startsWith('rollout-code-'))
    .map((name) => path.join(tmpdir(), name));

const allRemoved = (): Promise<true> =>
  eventually('every folder is removed', () => folders().length === 0 || null);

const HOSTILE_FOLDERS = {
  'modes that allow nothing': `import os
for mode in (0o300, 0o000, 0o100, 0o500):
    os.mkdir(f'd{mode}', 0o700)
    os.mkdir(f'd{mode}/below', mode)
os.mkdir('locked', 0o300)
open('locked/file', 'w').close()
os.umask(0o777)
os.mkdir('none')
'made'`,
  'a mode of its own that allows nothing': `import os
try:
    os.chmod('.', 0)
except OSError:
    pass
'made'`,
  'names that are no text, and links out of it': `import os
os.mkdir(b'\\xff\\xfe\\n')
open(b'\\xff\\xfe\\n/\\x01 -rf', 'w').close()
os.symlink('/', 'root')
os.symlink(${JSON.stringify(scratch)}, 'link')
os.symlink('loop', 'loop')
os.mkfifo('pipe')
os.link('pipe', 'other')
'made'`,
  'folders deeper than a path can be long': `import os
for _ in range(700):
    os.mkdir('d' * 100)
    os.chdir('d' * 100)
open('file', 'w').close()
'made'`,
  'a process that goes on writing': `import os
if os.fork() == 0:
    n = 0
    while True:
        n += 1
        os.makedirs(f'{n % 500}/{n}')
        os.rename(str(n % 500), f'x{n}')
'made'`,
};

type Ends = Parameters<typeof codeBed>[0] & { after: (end: () => void) => void };

for (const { level, missing } of LEVELS_HERE) {
  describe(`in ${level}`, { skip: missing }, () => {
    test('what code writes into its folder never runs outside', (t) => poison(t, level));
    for (const [name, code] of Object.entries(HOSTILE_FOLDERS)) {
      test(`a folder with ${name} is removed`, (t) => leaveBehind(t, { level, code }));
    }
    test('a worker outlives all of these, and so do their rollouts', (t) => outlive(t, level));
    test('a worker that may open few files runs as many interpreters as it can, one after the other', (t) =>
      openFew(t, level));
    test('a descriptor that the worker was started with is closed', (t) => inherit(t, level));
  });
}

/** Modules, packages, start-up files and caches of every name that a Python might look for in its folder or at home. */
const poisoned = (marker: string): string => `import os, py_compile, sys
payload = 'import os\\nopen(${JSON.stringify(marker)}, "w").write(__name__ if "__name__" in dir() else "pth")\\n'
home = os.getcwd()
names = sorted({*sys.stdlib_module_names, 'sitecustomize', 'usercustomize', 'confine', 'removal', 'runner', 'snippets', 'syscalls'})
for name in names:
    open(name + '.py', 'w').write(payload)
os.makedirs('__pycache__')
for name in ('shutil', 'json', 'site'):
    os.mkdir(name)
    open(name + '/__init__.py', 'w').write(payload)
    py_compile.compile(name + '.py', f'__pycache__/{name}.{sys.implementation.cache_tag}.pyc')
version = 'python%d.%d' % sys.version_info[:2]
site = os.path.join(home, '.local', 'lib', version, 'site-packages')
os.makedirs(site)
for name in ('sitecustomize.py', 'usercustomize.py'):
    open(os.path.join(site, name), 'w').write(payload)
line = 'import os; open(${JSON.stringify(marker)}, "w").write("pth")\\n'
open(os.path.join(site, 'x.pth'), 'w').write(line)
open('pyvenv.cfg', 'w').write('home = ' + home)
len(names) > 100`;

async function poison(t: Ends, level: Level): Promise<void> {
  const marker = path.join(scratch, `poison-${randomBytes(4).toString('hex')}`);
  const name = path.basename(marker);
  const control = mkdtempSync(path.join(scratch, 'control-'));
  execFileSync('python3', ['-c', poisoned(marker)], {
    cwd: control,
    env: { ...process.env, HOME: control },
  });
  spawnSync('python3', ['-c', 'import colorsys'], { cwd: control });
  assert.ok(readdirSync(scratch).includes(name), 'with nothing around it it runs');
  rmSync(marker);

  const worker = startWorkerProcess({ level, rollouts: [[poisoned(marker), '1 + 1']] }, t);
  assert.deepEqual([await worker.said(), await worker.said()], ['True', '2']);
  await worker.kill();
  const removed = await allRemoved().catch(String);
  assert.ok(!readdirSync(scratch).includes(name), 'it ran where the worker had been');
  assert.equal(removed, true);
  const bed = codeBed(t, { level });
  assert.equal(await bed.rollout().run(poisoned(marker)), 'True');
  await bed.environment.close?.();
  await allRemoved();
  assert.ok(!readdirSync(scratch).includes(name), 'it ran in the worker, or beside it');
}

// What cannot be looked at is too much: then nothing of the message has happened.
const MADE = /'made'|wrote more than/;

async function leaveBehind(
  t: Ends,
  { level, code }: { level: Level; code: string },
): Promise<void> {
  writeFileSync(path.join(scratch, 'kept'), 'kept');
  const said: string[] = [];
  const bed = codeBed(t, { level, report: (message: string) => said.push(message) });
  assert.match(await bed.rollout().run(code), MADE);
  await bed.environment.close?.();
  await allRemoved();
  assert.deepEqual(
    said.filter((message) => message.includes('cannot remove')),
    [],
  );
  assert.ok(readdirSync(scratch).includes('kept'), 'links were followed');
}

async function outlive(t: Ends, level: Level): Promise<void> {
  const rollouts = Object.values(HOSTILE_FOLDERS).map((code) => [
    ...[code, '1 + 1', 'import os\nos._exit(3)', '2 + 2'],
  ]);
  const worker = startWorkerProcess({ level, rollouts }, t);
  for (const name of Object.keys(HOSTILE_FOLDERS)) {
    assert.match(await worker.said(), MADE, name);
    assert.match(await worker.said(), /^2$|ended the interpreter|wrote more than/, name);
    assert.match(await worker.said(), /ended the interpreter|wrote more than/, name);
    assert.match(await worker.said(), /^4$|ended the interpreter|wrote more than/, name);
  }
  await worker.kill();
  await allRemoved();
}

/** Each rollout's interpreter keeps some descriptors of the worker. */
async function openFew(t: Ends, level: Level): Promise<void> {
  const rollouts = Array.from({ length: 45 }, () => ['1 + 1']);
  const through = ['bash', '-c', 'ulimit -n 160; exec "$@"', 'bash'];
  const worker = startWorkerProcess({ level, rollouts, through }, t);
  const said = new Set<string>();
  for (let i = 0; i < rollouts.length; i++) said.add((await worker.said()).replace(/:.*/s, ''));
  assert.deepEqual([...said], ['2']);
  await worker.kill();
}

/** With a gap below it: Node.js keeps others from its children itself. */
async function inherit(t: Ends, level: Level): Promise<void> {
  const secret = randomBytes(8).toString('hex');
  const file = path.join(scratch, `inherited-${secret}`);
  writeFileSync(file, secret);
  const through = ['bash', '-c', 'exec 40<"$0"; exec "$@"', file];
  const reads = 'import os; print(os.pread(40, 99, 0).decode())';
  const plain = execFileSync(through[0] ?? '', [
    ...through.slice(1),
    ...[process.execPath, '-e'],
    `process.stdout.write(require('child_process').execFileSync('python3', ['-c', ${JSON.stringify(reads)}]))`,
  ]);
  assert.equal(plain.toString().trim(), secret, 'with nothing around it it is read');
  const turn = `import os
found = []
for file in range(100):
    try:
        found.append(os.pread(file, 99, 0))
    except OSError:
        pass
found`;
  const worker = startWorkerProcess({ level, rollouts: [[turn]], through }, t);
  assert.ok(!(await worker.said()).includes(secret));
  await worker.kill();
}

describe('a folder that was left behind', () => {
  const level = 'landlock+seccomp';
  const landlock = LEVELS_HERE.find((here) => here.level === level)?.missing;
  const said: string[] = [];
  const report = (message: string): void => void said.push(message);
  const chattr = (flag: string, file: string): boolean =>
    isRoot && spawnSync('bash', ['-c', 'chattr "$@"', 'bash', flag, file]).status === 0;
  const probe = mkdtempSync(path.join(scratch, 'immutable-'));
  const immutable =
    chattr('+i', probe) && chattr('-i', probe)
      ? landlock
      : 'root and a file system with immutable files are needed';

  test(
    'since it cannot be removed, is said, fails nothing, and is removed by a later use',
    { skip: immutable },
    async (t) => {
      const bed = codeBed(t, { level, report, max_sandboxes: 1 });
      const one = bed.rollout();
      assert.equal(await one.run('open("file", "w").write("x")'), '1');
      const [folder = ''] = folders();
      const file = path.join(folder, 'file');
      assert.ok(chattr('+i', file));
      try {
        // It gives way to another.
        assert.equal(await bed.rollout().run('1 + 1'), '2');
        const left = said.filter((message) => message.includes('cannot remove'));
        assert.equal(left.length, 1);
        assert.match(
          left[0] ?? '',
          /cannot remove \/\S+: Operation not permitted; it is tried again/,
        );
      } finally {
        assert.ok(chattr('-i', file));
      }
      await sleep(1100);
      assert.equal(await one.run('2 + 2'), '4');
      await eventually('it is removed', () => !folders().includes(folder));
    },
  );

  test(
    'by a worker that is gone is removed by the next, one in use is not',
    { skip: landlock },
    async (t) => {
      const uid = 60_999;
      const left = path.join(tmpdir(), `rollout-code-${isRoot ? uid : 'abcdef'}`);
      mkdirSync(path.join(left, 'd', 'e'), { recursive: true });
      writeFileSync(path.join(left, 'd', 'e', 'file'), 'x');
      if (isRoot) execFileSync('chown', ['-R', `${uid}:${uid}`, left]);
      chmodSync(path.join(left, 'd'), 0);
      const bed = codeBed(t, { level });
      const one = bed.rollout();
      assert.equal(await one.run('open("file", "w").write("x")'), '1');
      // The system's, which every user may run.
      const python = (await findPythons(null)).pythons.at(-1);
      assert.ok(python !== undefined);
      const modules = await readProgram();
      const later = createFolders({ python, modules, report });
      await later.sweep();
      assert.ok(folders().includes(left), 'one that is young may have no guard yet');
      await createFolders({ python, modules, report, sweep_after_ms: 0 }).sweep();
      assert.ok(!folders().includes(left));
      assert.equal(await one.run('open("file").read()'), `'x'`);
    },
  );

  test(
    "since its guard was killed is removed, with the guard's processes",
    { skip: landlock },
    async (t) => {
      const bed = codeBed(t, { level });
      const one = bed.rollout();
      const name = `lone-${randomBytes(3).toString('hex')}`;
      await one.run(`import ctypes, os, time
ctypes.CDLL(None).prctl(15, b'${name}', 0, 0, 0)
open('file', 'w').write('x')
if os.fork() == 0:
    time.sleep(60)
'forked'`);
      const [folder = ''] = folders();
      const processes = processesNamed(name);
      assert.equal(processes.length, 2);
      const fields =
        readFileSync(`/proc/${Math.min(...processes)}/stat`, 'utf8').split(') ')[1] ?? '';
      process.kill(Number(fields.split(' ')[1]), 'SIGKILL');
      await eventually(
        'nothing is left',
        () => processesNamed(name).length === 0 && !folders().includes(folder),
      );
      assert.equal(await one.run('open("file").read()'), `'x'`);
    },
  );
});
