import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import {
  memoryOf,
  processesBelow,
  shareOfMemory,
  signalGroup,
} from '../../../src/sandbox/watch/process-tree.js';
import { eventually } from '../../../lab/bed/waiting.js';

const MIB = 2 ** 20;

/** Each process hands the block on to a child and ends; the first takes over orphans, and waits for none. */
const RELAY = `import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() > 0:
    time.sleep(600)
    sys.exit()
block = b'x' * (64 << 20)
print('made', flush=True)
end = time.monotonic() + 600
while time.monotonic() < end:
    if os.fork() > 0: os._exit(0)`;

const skip = process.platform === 'linux' ? false : 'this system has no /proc';

test(
  'a look at processes that hand on what they hold says where it missed one, and misses none once they are stopped',
  { skip },
  async (t) => {
    const child = spawn('python3', ['-c', RELAY], {
      detached: true,
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const { pid = 0 } = child;
    t.after(() => {
      signalGroup(pid, 'SIGKILL');
    });
    // What starts Python may fork, too.
    await once(child.stdout, 'data');
    await eventually('a look that missed one', () => {
      const { processes, is_whole } = processesBelow(pid);
      return !is_whole || processes.some((one) => memoryOf(one) === null);
    });
    signalGroup(pid, 'SIGSTOP');
    await eventually('a whole look', () => {
      const { processes, is_whole } = processesBelow(pid);
      const memory = processes.map((one) => memoryOf(one)?.own ?? 0);
      return is_whole && memory.some((bytes) => bytes > 64 * MIB);
    });
    assert.ok(processesBelow(pid).is_whole);
    assert.deepEqual(processesBelow(2 ** 22 + 1), { processes: [], is_whole: true });
  },
);

/** Twenty forks of one that holds 60 MiB, and one of them with 30 MiB of its own. */
const FORKS = `import mmap, os, time
block = b'x' * (60 << 20)
common = mmap.mmap(-1, 20 << 20)
common.write(b'y' * (20 << 20))
for k in range(20):
    if os.fork() == 0:
        sum(common[::4096])
        own = b'z' * (30 << 20) if k == 0 else b''
        print(k, flush=True)
        time.sleep(600)
time.sleep(600)`;

test('what forks have in common counts once among them', { skip }, async (t) => {
  const child = spawn('python3', ['-c', FORKS], {
    detached: true,
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  let said = '';
  child.stdout.on('data', (part: Buffer) => (said += part.toString()));
  const { pid = 0 } = child;
  t.after(() => {
    signalGroup(pid, 'SIGKILL');
  });
  await eventually('twenty forks', () => said.split('\n').length > 20);
  const { processes } = processesBelow(pid);
  const sumBy = (memory: typeof memoryOf, what: 'own' | 'shared'): number =>
    processes.reduce((sum, one) => sum + (memory(one)?.[what] ?? 0), 0) / MIB;
  assert.ok(sumBy(memoryOf, 'own') > 1200, `${sumBy(memoryOf, 'own')} MiB`);
  const own = sumBy(shareOfMemory, 'own');
  assert.ok(own > 90 && own < 300, `${own} MiB`);
  const shared = sumBy(shareOfMemory, 'shared');
  assert.ok(shared > 19 && shared < 25, `${shared} MiB`);
});
