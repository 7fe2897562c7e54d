/** What users of other sandboxes for agents have reported, tried in ours. Each is named by its issue. */
import assert from 'node:assert/strict';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Confined } from '../../../src/sandbox/programs/confinement.js';
import { processesNamed } from '../../environments/code/code-bed.js';
import { openLife, programs, run, shell, skip } from './program-bed.js';
import { within } from '../../../lab/bed/waiting.js';

const python = (code: string): string => `/usr/bin/python3 - <<'END'\n${code}\nEND`;
const script = (code: string): string => `cat > p.py <<'END'\n${code}\nEND\n/usr/bin/python3 p.py`;

const GIT = 'git -c user.name=a -c user.email=a@b';

const REPORTS: [report: string, script: string, says: string][] = [
  [
    'openai/codex#7251: a pool of processes has no semaphores',
    script(`from concurrent.futures import ProcessPoolExecutor
import multiprocessing
def f(x): return x + 1
if __name__ == '__main__':
    multiprocessing.Semaphore(); multiprocessing.Lock()
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(f, [1, 2, 3])))`),
    '[2, 3, 4]',
  ],
  [
    'openai/codex#24943: a fork server cannot listen',
    script(`import multiprocessing
def f(x): return x + 1
if __name__ == '__main__':
    with multiprocessing.get_context('forkserver').Pool(2) as pool: print(pool.map(f, [1, 2]))`),
    '[2, 3]',
  ],
  [
    'openai/codex#33793: a loop is not woken by another thread',
    python(`import asyncio, threading
loop = asyncio.new_event_loop()
threading.Thread(target=loop.run_forever, daemon=True).start()
print(asyncio.run_coroutine_threadsafe(asyncio.sleep(0, result=42), loop).result(timeout=20))`),
    '42',
  ],
  [
    'openai/codex#41175: a command that Node.js waits for fails once it has succeeded',
    `node -e 'const r = require("child_process").spawnSync("git", ["--version"]); console.log(r.status, r.error ? r.error.code : "none")'`,
    '0 none',
  ],
  [
    'paperclipai/paperclip#12327: devices cannot be opened',
    'for d in null zero full random urandom; do head -c 1 /dev/$d > /dev/null || echo no $d; done; echo x > /dev/null; echo x 2>/dev/null | tee /dev/stderr 2>/dev/null',
    'x',
  ],
  [
    'anthropics/claude-code#17374: nothing runs in a worktree of git',
    `git init -q a && cd a && ${GIT} commit -q --allow-empty -m one && git worktree add -q ../b && cd ../b && touch c && git add c && ${GIT} commit -qm two && git log --format=%s`,
    'two\none',
  ],
  [
    'emsi/claude-desktop#3: a name that nobody knows is waited for',
    `getent hosts localhost | wc -l; ${python(`import socket, time
began = time.monotonic()
try:
    socket.getaddrinfo('example.com', 80)
except socket.gaierror:
    print('unknown at once' if time.monotonic() - began < 4 else 'late')`)}`,
    '1\nunknown at once',
  ],
  [
    'anthropics/claude-code#35986: a server in the background dies with the command that started it',
    `nohup python3 -m http.server 9300 --bind 127.0.0.1 > /dev/null 2>&1 & disown; bash -c 'for i in $(seq 100); do exec 3<> /dev/tcp/127.0.0.1/9300 && echo answers && exit; sleep 0.1; done' 2> /dev/null`,
    'answers',
  ],
];

describe('what others report of sandboxes for agents', { skip }, () => {
  const endings: (() => void | Promise<void>)[] = [];
  let folder: string;
  let life: Confined;

  before(async () => {
    folder = mkdtempSync('/var/tmp/program-reports-');
    endings.push(() => {
      rmSync(folder, { recursive: true });
    });
    const t = { after: (end: () => Promise<void>) => void endings.unshift(end) };
    life = await openLife(programs(t));
  });
  after(async () => {
    for (const end of endings) await end();
  });

  for (const [report, command, says] of REPORTS)
    test(report, async () => {
      assert.equal(await shell(life, command), says);
      await shell(life, 'rm -rf ./*');
    });

  test('max-sixty/tend#1279: a mount below a folder that others may not list', async (t) => {
    const closed = path.join(folder, 'closed');
    const inner = path.join(closed, 'tools');
    mkdirSync(inner, { recursive: true });
    writeFileSync(path.join(inner, 'said'), 'there');
    chmodSync(closed, 0o700);
    const other = await openLife(programs(t, { mounts: [inner] }));
    assert.equal(await shell(other, `cat ${inner}/said; ls ${closed}`), 'theretools');
  });

  for (const [report, left] of [
    [
      'SWE-agent/mini-swe-agent#826: what a shell that was late has started runs on',
      `timeout 1 bash -c './NAME 3000; true'; echo late`,
    ],
    [
      'PrimeIntellect-ai/prime-agent#1198: a process in the background that has the outputs holds the end up',
      `(setsid ./NAME 3000 &) ; echo late`,
    ],
  ] as const)
    test(report, async () => {
      const name = `late-${process.pid}`;
      const argv = ['/bin/bash', '-c', `cp /bin/sleep ./${name}; ${left.replace('NAME', name)}`];
      const { text } = await within('its end', run(life, argv as [string, ...string[]]));
      assert.equal(text, 'late\n');
      assert.deepEqual(processesNamed(name), []);
    });
});
