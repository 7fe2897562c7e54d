import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { signalTo } from '../../../src/sandbox/watch/process-tree.js';
import { longestHold_ms } from '../../harness/processor-time.js';
import { eventually } from '../../../lab/bed/waiting.js';
import type { Bed } from '../../environments/code/code-bed.js';
import { codeBed, LEVELS_HERE, processesNamed } from '../../environments/code/code-bed.js';

/** Hostile code against the looks at what it uses, and against the worker's time. */

for (const { level, missing } of LEVELS_HERE) {
  describe(`in ${level}`, { skip: missing }, () => {
    test('an interpreter that is woken between two turns is ended, and made again', (t) =>
      wake(codeBed(t, { level })));
    test('looking at 25 threads with 31,000 mappings each does not hold up the worker', (t) =>
      holdUp(codeBed(t, { level, timeout: '60s', cpu: '20s' })));
    test('lines without end in place of a reply do not hold it up', (t) =>
      flood(codeBed(t, { level })));
    test('comparing what code says again does not hold it up', (t) =>
      slashes(codeBed(t, { level })));
    for (const lives_s of [0.4, 0.01]) {
      test(`processor time counts of children that live for ${lives_s} s and are not waited for`, (t) =>
        forget(codeBed(t, { level, cpu: '1s', timeout: '30s' }), lives_s));
    }
    test('where the machine runs out of memory or processes it goes before the worker', (t) =>
      yieldFirst(codeBed(t, { level })));
    test('with no descriptor left its next turns run', (t) => useUp(codeBed(t, { level })));
  });
}

const named = (name: string): string => `import ctypes
ctypes.CDLL(None).prctl(15, b'${name}', 0, 0, 0)`;

async function wake(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  const name = `woken-${randomBytes(3).toString('hex')}`;
  await rollout.run(`${named(name)}
import threading
n = 0
def count():
    global n
    while True: n += 1
threading.Thread(target=count, daemon=True).start()`);
  const [pid = 0] = processesNamed(name);
  assert.ok(pid > 1);
  await sleep(1500);
  assert.deepEqual(processesNamed(name).slice(0, 1), [pid], 'it rests, and is left alone');
  // On a busy machine it may be stopped again before it has used much.
  await eventually('it is ended', () => {
    const is_there = processesNamed(name).includes(pid);
    signalTo(pid, 'SIGCONT');
    return !is_there;
  });
  assert.equal(await rollout.run('n > 0'), 'True');
}

async function holdUp(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('1');
  let said = '';
  const held_ms = await longestHold_ms(async () => {
    said = await rollout.run(`import ctypes, mmap, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
for n in range(31000):
    # Neighbours with other rights are mappings of their own.
    libc.mmap(None, ctypes.c_size_t(4096), 1 + n % 2 * 2, 34, -1, ctypes.c_long(0))
threading.stack_size(131072)
for _ in range(25):
    threading.Thread(target=time.sleep, args=(200,), daemon=True).start()
time.sleep(1)
import os
for _ in range(3):
    if os.fork() == 0:
        block = b'x' * (180 << 20)
        time.sleep(200)
        os._exit(0)
time.sleep(100)`);
  });
  assert.match(said, /used more than 512 MiB of memory/);
  assert.ok(held_ms < 600, `nothing else ran for ${held_ms} ms`);
}

async function flood(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('kept = 1');
  const held_ms = await longestHold_ms(async () => {
    const said = await rollout.run(`import os, select
for file in range(3, 20):
    try:
        for _ in range(200):
            if not select.select([], [file], [], 0.01)[1]: break
            os.write(file, b'1\\n' * 2000)
    except OSError:
        pass`);
    assert.match(said, /the code ended the interpreter/);
  });
  assert.ok(held_ms < 600, `nothing else ran for ${held_ms} ms`);
  assert.equal(await rollout.run('kept'), '1');
}

async function slashes(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.say("<code>print('/' * 8192)</code>".repeat(30));
  rollout.key = 'elsewhere';
  const held_ms = await longestHold_ms(async () => {
    assert.equal(await rollout.run('1 + 1'), '2');
  });
  assert.ok(held_ms < 600, `nothing else ran for ${held_ms} ms`);
}

async function forget(bed: Bed, lives_s: number): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('kept = 1');
  const said = await rollout.run(`import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
begun = time.monotonic()
while time.monotonic() - begun < 20:
    if os.fork() == 0:
        end = time.process_time() + ${lives_s}
        while time.process_time() < end: pass
        os._exit(0)
    try:
        os.wait()
    except ChildProcessError:
        pass
'through'`);
  assert.match(said, /used more than 1 s of processor time/);
  assert.equal(await rollout.run('kept'), '1');
}

async function yieldFirst(bed: Bed): Promise<void> {
  const name = `first-${randomBytes(3).toString('hex')}`;
  const said = await bed.rollout().run(`${named(name)}
import resource
resource.getrlimit(resource.RLIMIT_CORE)[1] < 2 and 0 < resource.getrlimit(resource.RLIMIT_NPROC)[1] < 2 ** 14`);
  assert.equal(said, 'True');
  const [pid = 0] = processesNamed(name);
  assert.equal(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8').trim(), '1000');
}

async function useUp(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  const said = await rollout.run(`import os
files = []
try:
    while True: files.append(os.open('/dev/null', os.O_RDONLY))
except OSError as error:
    print(error)
len(files) < 64`);
  assert.match(said, /Too many open files/);
  assert.match(said, /True$/);
  assert.equal(await rollout.run('print("out")\n1 + 1'), 'out\n2');
  assert.match(await rollout.run('open("f", "w")'), /Too many open files/);
  assert.equal(
    await rollout.run('[os.close(file) for file in files][0]\nopen("f", "w").write("x")'),
    '1',
  );
}
