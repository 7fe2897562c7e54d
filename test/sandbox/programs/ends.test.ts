import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { describe, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { eventually } from '../../../lab/bed/waiting.js';
import { processesNamed } from '../../environments/code/code-bed.js';
import { fileOfLife, openLife, programs, run, shell, skip } from './program-bed.js';

/** What is left when a program, its life or its worker ends: nothing. */

const named = (): string => `left-${randomBytes(3).toString('hex')}`;

/** In the background, in a session of its own, of a parent that has ended, deaf to signals. */
const leaves = (name: string): string =>
  `cp /bin/sleep ./${name}; (trap '' HUP TERM INT; setsid ./${name} 60 & ); (setsid bash -c './${name} 60 & exit' &); sleep 0.3; echo left`;

const KILLS = 'kill -9 $PPID; kill -9 1; kill -TERM 1; kill -INT 1';

/** Any names, any modes, any depth, links to other places. */
const making = (name: string): string => `touch ${name}; mkfifo pipe; ln -s / root
ln -s nowhere dead; ln ${name} twice; chmod 4000 twice
python3 - <<'END'
import os, socket
socket.socket(socket.AF_UNIX).bind('socket')
os.mkdir(b'\\xff\\n')
os.truncate(os.open('/tmp/sparse', os.O_CREAT | os.O_RDWR), 1 << 24)
for _ in range(60):
    os.mkdir('d' * 255)
    os.chdir('d' * 255)
open('x' * 255, 'w').close()
os.chmod('.', 0)
END
chmod 0 . /tmp /dev/shm; echo made`;

describe('when it ends', { skip }, () => {
  test('a program leaves no process, which it does with nothing around it', async (t) => {
    const [name, free] = [named(), named()];
    const life = await openLife(programs(t));
    assert.equal(await shell(life, leaves(name)), 'left');
    assert.deepEqual(processesNamed(name), []);
    spawnSync('/bin/bash', ['-c', leaves(free)], { cwd: '/tmp', stdio: 'ignore' });
    const left = processesNamed(free);
    for (const pid of left) process.kill(pid, 'SIGKILL');
    assert.equal(left.length, 2);
    spawnSync('rm', [`/tmp/${free}`]);
  });

  test('a program that ends whoever it can, its guard first, ends itself alone', async (t) => {
    const confinement = programs(t);
    const [life, other] = [await openLife(confinement), await openLife(confinement)];
    const name = named();
    const sleeping = await other.start({
      argv: ['/bin/sleep', '100'],
      env: other.variables('program'),
    });
    const { code, text } = await run(life, ['/bin/bash', '-c', `${KILLS}; echo ${name}`]);
    assert.deepEqual([code, text.trim()], [0, name]);
    await run(life, ['python3', '-c', 'import os, signal; os.kill(-1, signal.SIGKILL)']);
    assert.equal(await shell(life, 'echo still'), 'still');
    sleeping.end();
    assert.equal((await sleeping.ended).signal, 'SIGKILL');
    const plain = spawnSync('/bin/bash', ['-c', `/bin/bash -c 'kill -9 $PPID'; echo ${name}`]);
    assert.equal(plain.signal, 'SIGKILL');
  });

  test('its folder is removed, whatever it has made in it', async (t) => {
    const life = await openLife(programs(t));
    const name = named();
    const mounted = readFileSync('/proc/self/mountinfo', 'utf8');
    await shell(life, `touch ${name}`);
    const folder = path.dirname(path.dirname(fileOfLife(name)));
    // Where the watch cannot look, it ends the program.
    const { code, excess, tail } = await run(life, ['/bin/bash', '-c', making(name)]);
    if (excess === null) assert.equal(code, 0, tail);
    else assert.match(excess, /or could not be measured/);
    await life.remove();
    assert.ok(!existsSync(folder), folder);
    assert.equal(readFileSync('/proc/self/mountinfo', 'utf8'), mounted);
    await assert.rejects(run(life, ['/bin/true']), /its sandbox is removed/);
  });

  test('a life that is removed ends its program', async (t) => {
    const life = await openLife(programs(t));
    const running = await life.start({
      argv: ['/bin/sleep', '100'],
      env: life.variables('program'),
    });
    await life.remove();
    assert.equal((await running.ended).signal, 'SIGKILL');
  });

  test('a worker that is killed leaves neither process nor folder', async (t) => {
    const name = named();
    const program = fileURLToPath(new URL('short-lived-worker.js', import.meta.url));
    const stdio = ['ignore', 'pipe', 'inherit'] as const;
    const worker = spawn(process.execPath, [program, name], { stdio: [...stdio] });
    t.after(() => worker.kill('SIGKILL'));
    await once(worker.stdout, 'data');
    const folder = path.dirname(path.dirname(fileOfLife(name)));
    await eventually('its program and what that started', () => processesNamed(name).length === 2);
    worker.kill('SIGKILL');
    await eventually('nothing is left', () => {
      return processesNamed(name).length === 0 && !existsSync(folder);
    });
  });

  test('each life is heard at its own listener alone', async (t) => {
    const confinement = programs(t);
    const lives = [await openLife(confinement), await openLife(confinement)];
    const heard = [0, 0];
    for (const [n, { door }] of lives.entries())
      door?.server.on('connection', (socket) => {
        heard[n] = (heard[n] ?? 0) + 1;
        socket.end();
      });
    const [first] = lives;
    if (first === undefined) throw new Error('no life');
    await shell(first, 'exec 3<> /dev/tcp/127.0.0.1/8088; cat <&3');
    assert.deepEqual(heard, [1, 0]);
  });
});
