import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync, rmSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Level } from '../../../src/sandbox/levels.js';
import type { Attempt, Canaries } from './attempts.js';
import { attempts } from './attempts.js';
import { makeCanaries } from './canaries.js';
import type { Excessive } from './excesses.js';
import { EXCESSES, LIMITS } from './excesses.js';
import type { Bed } from './code-bed.js';
import { codeBed, LEVELS_HERE, processesNamed } from './code-bed.js';
import { tryPlain } from './plain-python.js';
import { PATIENCE_MS } from '../../../lab/bed/waiting.js';

/**
 * Hostile code at each level of confinement. Each attempt has a control: the same code in a plain interpreter gets
 * through, so that what is refused in the sandbox is refused by the sandbox.
 */

let canaries: Canaries;
let all: Attempt[] = [];
const closing: (() => void)[] = [];

before(async () => {
  const made = await makeCanaries();
  ({ canaries } = made);
  closing.push(made.close);
  all = attempts(canaries);
});
after(() => {
  for (const close of closing) close();
});

const matches = (text: string, pattern: string | RegExp): boolean =>
  typeof pattern === 'string' ? text === pattern : pattern.test(text);

test('with nothing around it every attempt gets through', async () => {
  assert.ok(all.length >= 20);
  const variables = Object.assign({}, ...all.map((one) => one.variables)) as Record<string, string>;
  const codes = all.map(({ code }) => code);
  const said = await tryPlain(codes, variables);
  for (const [n, { name, through }] of all.entries())
    assert.ok(matches(said[n] ?? '', through), `${name}: ${said[n]}`);
  rmSync(canaries.new_file);
});

test('with nothing around it every excess gets through', async () => {
  await Promise.all(
    EXCESSES.map(async ({ name, code, through }) => {
      if (through === null) return;
      const [said = ''] = await tryPlain([code], { TMPDIR: path.dirname(canaries.new_file) });
      assert.ok(matches(said, through), `${name}: ${said.slice(0, 300)}`);
    }),
  );
});

for (const { level, missing } of LEVELS_HERE) {
  describe(`in ${level}`, { skip: missing }, () => {
    const bed = codeBed({ after }, { level, ...LIMITS });
    // What is not about time: a busy machine takes its own.
    const patient = codeBed({ after }, { level, ...LIMITS, timeout: '60s' });
    test('its name is said, and what it means where it is not the strongest', (t) =>
      announce(t, level));
    test('no attempt gets through', () => refuseAll(bed));
    describe('code that takes too much is stopped', { concurrency: 2 }, () => {
      for (const excess of EXCESSES)
        test(excess.name, () =>
          stop(/Timeout/.test(excess.stopped.source) ? bed : patient, excess),
        );
    });
    test('output without end is cut, and the reply of an honest snippet follows', () =>
      floods(patient));
    test('replies that the code forges or floods change nothing but its own observation', () =>
      forgeries(patient));
    test('code that answers in the place of its interpreter and ends it holds up nothing', () =>
      impostor(patient));
    test('endless recursion without its limit is stopped', () => recursion(bed));
    test('a running thread does not compute between turns', () => frozen(patient));
    test('when it is closed no process and no folder is left, orphans included', (t) =>
      orphans(codeBed(t, { level, ...LIMITS, timeout: '60s' })));
    test('ordinary code runs: subprocesses, threads, temporary files, asyncio', () =>
      ordinary(patient));
  });
}

async function announce(t: Parameters<typeof codeBed>[0], level: Level): Promise<void> {
  const said: string[] = [];
  const report = (message: string): void => void said.push(message);
  await codeBed(t, { level, report }).sandbox.level(AbortSignal.timeout(PATIENCE_MS));
  assert.equal(said.length, 1);
  assert.ok(said[0]?.startsWith(`code runs in ${level} with /`), said[0]);
  const user = process.getuid?.() === 0 ? 'has user ids of its own' : "has this worker's user";
  const meaning = `It ${user} and shares this machine's namespaces`;
  assert.equal(said[0]?.includes(meaning), level === 'landlock+seccomp');
}

async function refuseAll(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  for (const { name, code, through, variables } of all) {
    for (const [key, value] of Object.entries(variables ?? {})) process.env[key] = value;
    const said = await rollout.run(code);
    for (const key of Object.keys(variables ?? {})) Reflect.deleteProperty(process.env, key);
    assert.ok(!matches(said, through), `${name} got through: ${said}`);
    assert.ok(!said.includes(canaries.secret), `${name} saw the secret: ${said}`);
  }
  assert.deepEqual(processesNamed('canary-none'), []);
  assert.equal(await rollout.run('1 + 1'), '2', 'the interpreter is unharmed');
}

async function stop(bed: Bed, { code, stopped }: Excessive): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('before = 1');
  const said = await rollout.run(code);
  assert.match(said, stopped);
  assert.equal(await rollout.run('before'), '1', 'what was before it is still there');
}

async function floods(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  const printed = await rollout.run(`for _ in range(50): print('x' * 1000000)`);
  assert.equal(printed, `${'x'.repeat(2000)}… [49998050 more bytes]`);
  const raw = await rollout.run(`import os\nfor _ in range(50): os.write(1, b'y' * 1000000)`);
  assert.match(raw, /^y{2000}… \[1\d{7} more bytes\]\nOSError\(27, 'File too large'\)$/);
  const value = await rollout.run(`'z' * 1000000`);
  assert.equal(value.length, `'${'z'.repeat(1999)}… [98002 more characters]`.length + 1);
  assert.equal(await rollout.run('1 + 1'), '2');
}

async function forgeries(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('kept = 1');
  const everywhere = (line: string, times = 1): string => `import os, select
for file in range(3, 40):
    try:
        for _ in range(${times}):
            if not select.select([], [file], [], 1)[1]: break
            os.write(file, ${line})
    except OSError:
        pass
'done'`;
  const forged = '{"id":"x","outcomes":[{"status":"ok","value":"9","evaluated":true,"stdout":""}]}';
  assert.match(await rollout.run(everywhere(`b'${forged}\\n{"id":7}\\nnull\\n[\\n'`)), /'done'$/);
  assert.equal(await rollout.run('kept'), '1');
  const flooded = await rollout.run(everywhere(`b'x' * 4000`, 500));
  assert.match(flooded, /^RuntimeError\('the code ended the interpreter/);
  assert.equal(await rollout.run('kept'), '1');
}

async function impostor(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('kept = 1');
  const said = await rollout.run(`import json, os, sys
frame = sys._getframe()
while 'replies' not in frame.f_locals:
    frame = frame.f_back
forged = {'status': 'ok', 'value': '7', 'evaluated': True, 'stdout': ''}
line = json.dumps({'id': frame.f_locals['request']['id'], 'outcomes': [forged]})
os.write(frame.f_locals['replies'].fileno(), line.encode() + b'\\n')
os._exit(0)`);
  assert.match(said, /^7$|the code ended the interpreter/);
  // It does so again whenever the interpreter is made again: the rollout is its own.
  assert.match(await rollout.run('kept'), /^1$|the code ended the interpreter/);
  assert.equal(await bed.rollout().run('1 + 1'), '2');
}

async function recursion(bed: Bed): Promise<void> {
  const said = await bed
    .rollout()
    .run('import sys\nsys.setrecursionlimit(10**9)\ndef f(n): return repr([f(n + 1)])\nf(0)');
  assert.match(said, /^\w+Error\(/);
}

async function frozen(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run(`import threading, time
n = 0
def count():
    global n
    while True: n += 1
threading.Thread(target=count, daemon=True).start()`);
  const spent = async (): Promise<number> => Number(await rollout.run('time.process_time()'));
  const first = await spent();
  await new Promise((resolve) => setTimeout(resolve, 1500));
  assert.ok((await spent()) - first < 1, 'it computed while nobody asked');
}

async function orphans(bed: Bed): Promise<void> {
  const name = `orphan-${randomBytes(3).toString('hex')}`;
  const said = await bed.rollout().run(`import ctypes, os, time
ready, done = os.pipe()
if os.fork() == 0:
    if os.fork() == 0:
        ctypes.CDLL(None).prctl(15, b'${name}', 0, 0, 0)
        os.write(done, b'x')
        time.sleep(60)
    os._exit(0)
os.wait()
os.read(ready, 1), os.getcwd()`);
  const [, folder = ''] = /^\(b'x', '(.*)'\)$/.exec(said) ?? [];
  assert.ok(folder.startsWith('/') && existsSync(folder), said);
  assert.equal(processesNamed(name).length, 1, 'the orphan is there');
  await bed.environment.close?.();
  assert.deepEqual(processesNamed(name), []);
  // Sandboxes of other processes have folders beside it.
  assert.ok(!existsSync(folder), folder);
}

async function ordinary(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  const said =
    await rollout.run(`import asyncio, concurrent.futures, fcntl, os, shutil, subprocess, sys, tempfile
shell = subprocess.run(['/bin/echo', 'a'], capture_output=True).stdout
with concurrent.futures.ThreadPoolExecutor(2) as pool: threads = list(pool.map(abs, [-1, -2]))
with tempfile.TemporaryDirectory() as folder: open(folder + '/f', 'w').write('x')
with tempfile.TemporaryFile() as file:
    os.posix_fallocate(file.fileno(), 0, 4096)
    fcntl.flock(file, fcntl.LOCK_EX)
open('written.py', 'w').write('value = 1')
shutil.copyfile('written.py', 'sibling.py')
subprocess.run(['/bin/cp', 'written.py', 'brother.py'], check=True)
subprocess.run('cat written.py | cat > sister.py', shell=True, check=True)
import brother, sibling, sister
scripts = subprocess.run(['/bin/sh', '-c', 'echo c & echo d | cat & wait'], capture_output=True).stdout
child = subprocess.Popen(['/bin/sleep', '9'])
child.terminate()
async def later():
    await asyncio.sleep(0.01)
    return 'b'
shell, threads, asyncio.run(later()), child.wait(), sibling.value + brother.value + sister.value, sorted(scripts)`);
  assert.equal(said, `(b'a\\n', [1, 2], 'b', -15, 3, [10, 10, 99, 100])`);
}
