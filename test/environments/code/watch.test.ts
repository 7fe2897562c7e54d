import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { describe, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { eventually } from '../../harness/waiting.js';
import type { Bed } from './code-bed.js';
import { codeBed, LEVELS_HERE, processesNamed } from './code-bed.js';

/** Hostile code against whoever looks at what it uses. */

for (const { level, missing } of LEVELS_HERE) {
  describe(`in ${level}`, { skip: missing }, () => {
    test('an interpreter that somebody wakes between two turns is ended, and made again', (t) =>
      wake(codeBed(t, { level })));
    test('looking at 25 threads with 31,000 mappings each does not hold up the worker', (t) =>
      holdUp(codeBed(t, { level, timeout: '20s', cpu: '20s' })));
    test('processor time counts of children that nobody waits for', (t) =>
      forget(codeBed(t, { level, cpu: '1s', timeout: '8s' })));
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
  process.kill(pid, 'SIGCONT');
  await eventually({ what: 'it is ended', timeout_ms: 5000 }, () => !processesNamed(name).includes(pid)); // prettier-ignore
  assert.equal(await rollout.run('n > 0'), 'True');
}

async function holdUp(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('1');
  const delay = monitorEventLoopDelay({ resolution: 10 });
  delay.enable();
  const began = performance.now();
  const said = await rollout.run(`import ctypes, mmap, threading, time
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
for n in range(31000):
    # Neighbours with other rights are mappings of their own.
    libc.mmap(None, ctypes.c_size_t(4096), 1 + n % 2 * 2, 34, -1, ctypes.c_long(0))
threading.stack_size(131072)
for _ in range(25):
    threading.Thread(target=time.sleep, args=(20,), daemon=True).start()
time.sleep(1)
import os
for _ in range(3):
    if os.fork() == 0:
        block = b'x' * (180 << 20)
        time.sleep(20)
        os._exit(0)
time.sleep(10)`);
  delay.disable();
  assert.match(said, /used more than 512 MiB of memory/);
  const took_s = (performance.now() - began) / 1000;
  assert.ok(took_s < 5, `it is seen after ${took_s} s`);
  const longest_ms = delay.max / 1e6;
  assert.ok(longest_ms < 300, `nothing else ran for ${longest_ms} ms`);
}

async function forget(bed: Bed): Promise<void> {
  const rollout = bed.rollout();
  await rollout.run('kept = 1');
  const said = await rollout.run(`import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
for _ in range(8):
    if os.fork() == 0:
        end = time.process_time() + 0.4
        while time.process_time() < end: pass
        os._exit(0)
    time.sleep(0.5)
'through'`);
  assert.match(said, /used more than 1 s of processor time/);
  assert.equal(await rollout.run('kept'), '1');
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
