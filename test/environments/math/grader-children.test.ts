import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import path from 'node:path';
import { test } from 'node:test';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { temporaryFolder } from '../../fakes/temporary-store.js';
import { withoutPython } from '../python-server.js';
import { poolFor } from './grader-fixture.js';
import { eventually } from '../../../lab/bed/waiting.js';

/** A grader with the real one's guard, whose checks start programs: one has a session of its own. */
const SCRIPT = `
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from guard import guarded
guarded(parent=int(sys.argv[3]))
print('{"ready": true}', flush=True)
sys.stdin.readline()
started = [subprocess.Popen(["sleep", "600"], start_new_session=own).pid for own in (False, True)]
with open(sys.argv[2], "a") as file:
    file.write(" ".join(map(str, started)) + "\\n")
if sys.argv[4] == "leaves":
    os._exit(3)
if sys.argv[4] == "crashes":
    os.abort()
time.sleep(600)
`;

const runs = async (pid: string): Promise<boolean> => {
  const stat = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => null);
  return stat !== null && !/\) Z/.test(stat);
};

const skip = process.platform === 'linux' ? withoutPython : 'its processes are found in /proc';

for (const [how, message] of [
  ['hangs', /gave no answer within 5 s/],
  ['leaves', /exit code 3/],
  ['crashes', /ended by SIGABRT/],
] as const) {
  test(`what a check started ends with a grader that ${how}`, { skip }, async (t) => {
    const file = path.join(await temporaryFolder(t), 'started');
    const package_folder = path.join(PROJECT_ROOT, 'python', 'rollout_environment');
    const args = ['-c', SCRIPT, package_folder, file, String(process.pid), how];
    const pool = poolFor(t, {
      max_processes: 1,
      deadline_ms: how === 'hangs' ? 5000 : 60_000,
      command: () => ({ program: 'python3', args, env: process.env }),
    });
    const check = pool.compare({ gold: 'g', answer: 'a' }, new AbortController().signal);
    await assert.rejects(check, { type: 'EnvironmentRejected', message });
    const pids = (await readFile(file, 'utf8')).trim().split(/\s/);
    assert.equal(pids.length, 4, 'of two attempts');
    const running = async (): Promise<string[]> => {
      const left = await Promise.all(pids.map(async (pid) => ((await runs(pid)) ? [pid] : [])));
      return left.flat();
    };
    await eventually('their end', async () => (await running()).length === 0);
  });
}
