import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import {
  memoryOf,
  processesBelow,
  signalGroup,
} from '../../../../src/environments/code/watch/process-tree.js';
import { eventually } from '../../../harness/waiting.js';

const MIB = 2 ** 20;

/** Each process hands the block on to a child and ends; the first takes over orphans, and waits for none. */
const RELAY = `import ctypes, os, signal, sys, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() > 0:
    time.sleep(600)
    sys.exit()
block = b'x' * (64 << 20)
end = time.monotonic() + 600
while time.monotonic() < end:
    if os.fork() > 0: os._exit(0)`;

const skip = process.platform === 'linux' ? false : 'this system has no /proc';

test(
  'a look at processes that hand on what they hold says where it missed one, and misses none once they are stopped',
  { skip },
  async (t) => {
    const child = spawn('python3', ['-c', RELAY], { detached: true, stdio: 'ignore' });
    await once(child, 'spawn');
    const { pid = 0 } = child;
    t.after(() => {
      signalGroup(pid, 'SIGKILL');
    });
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
