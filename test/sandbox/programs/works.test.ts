import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { describe, test } from 'node:test';
import type { Part } from '../../../src/sandbox/programs/confinement.js';
import { openLife, programs, run, shell, skip } from './program-bed.js';
import { played } from './submit-bed.js';

describe('in the sandbox of programs', { skip }, () => {
  test('a shell, git, Node.js, Python and a compiler work as outside', async (t) => {
    const life = await openLife(programs(t));
    assert.equal(
      await shell(life, 'pwd; whoami; hostname; id -u'),
      '/rollout\nrollout\nrollout\n1000',
    );
    const git = 'git -c user.name=a -c user.email=a@b';
    assert.match(
      await shell(
        life,
        `git init -q . && touch a && ${git} add a && ${git} commit -qm one && git log --oneline`,
      ),
      /^[0-9a-f]+ one$/,
    );
    assert.match(
      await shell(life, 'set -m; sleep 9 & jobs; kill %1; wait; echo over'),
      /Running[^]*over$/,
    );
    assert.equal(
      await shell(life, `printf 'int main(){return 7;}' > m.c && cc m.c -o m && { ./m; echo $?; }`),
      '7',
    );
    assert.equal(
      await shell(
        life,
        'script -qec "tty; set -m; sleep 0 & wait; echo in" /dev/null | tr -d "\\r" | head -1',
      ),
      '/dev/pts/0',
    );
    const script = `const http = require('http'); const cp = require('child_process');
      const server = http.createServer((q, r) => r.end('own')).listen(0, '127.0.0.1', async () => {
        const said = await (await fetch('http://127.0.0.1:' + server.address().port)).text();
        console.log(said, cp.execFileSync('node', ['-p', '6*7']).toString().trim()); server.close(); })`;
    assert.equal((await run(life, ['node', '-e', script])).text.trim(), 'own 42');
    const python = `import multiprocessing, tempfile, sqlite3
def square(x): return x * x
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: print(sum(pool.map(square, range(4))))
    sqlite3.connect('a.db').execute('create table t (x)')`;
    assert.equal(await shell(life, `cat > p.py <<'E'\n${python}\nE\n/usr/bin/python3 p.py`), '14');
    await life.remove();
  });

  test('a package with tests runs under npm test, and a unit test under Python', async (t) => {
    const life = await openLife(programs(t));
    const script = `mkdir a && cd a && printf '{"name":"a","scripts":{"test":"node --test"}}' > package.json &&
      printf "const t=require('node:test');const a=require('node:assert');t('adds',()=>a.equal(1+1,2))" > a.test.js &&
      npm test 2>&1 | grep -E '^(ℹ|#) pass'`;
    assert.match(await shell(life, script), /pass 1$/);
    const python = `printf 'import unittest\\nclass T(unittest.TestCase):\\n  def test(self): self.assertEqual(1+1,2)\\n' > test_a.py &&
      /usr/bin/python3 -m unittest 2>&1 | tail -1`;
    assert.equal(await shell(life, python), 'OK');
  });

  test('its input, its two outputs, its exit and its end are told', async (t) => {
    const life = await openLife(programs(t));
    const { code, text, tail } = await run(life, {
      argv: [
        '/bin/bash',
        '-c',
        'read a; echo $a; cat; echo err >&2; echo out > /dev/stdout; exit 3',
      ],
      input: `first\n${'in'.repeat(100_000)}`,
    });
    assert.equal(code, 3);
    assert.equal(text, `first\n${'in'.repeat(100_000)}out\n`);
    assert.match(tail, /err\n/);
    assert.equal((await run(life, ['/bin/bash', '-c', 'kill -SEGV $$'])).signal, 'SIGSEGV');
    const running = await life.start({
      argv: ['/bin/sleep', '100'],
      env: life.variables('program'),
    });
    running.end();
    assert.equal((await running.ended).signal, 'SIGKILL');
    await assert.rejects(
      life.start({ argv: ['nothing-like-it'], env: life.variables('program') }),
      {
        type: 'EnvironmentRejected',
        message: /environments\.swe\.run: nothing-like-it: No such file or directory.*run\.mounts/,
      },
    );
    assert.equal(await shell(life, 'echo still'), 'still');
  });

  test('the listener inside is answered by the worker, on connections of the program itself', async (t) => {
    const life = await openLife(programs(t));
    const server = createServer((request, response) => {
      response.end(`${request.url} from ${request.socket.remoteAddress}`);
    });
    life.door?.server.on('connection', (socket) => server.emit('connection', socket));
    const said = await run(life, [
      'node',
      '-e',
      `fetch('${life.door?.base_url}/models').then(async (r) => console.log(await r.text()))`,
    ]);
    assert.equal(said.text, '/v1/models from 127.0.0.1\n', said.tail);
  });

  test('what setup and submit share with a program is the folder, which submit can only read', async (t) => {
    const life = await openLife(programs(t));
    const part = async (part: Part, script: string): Promise<string> => {
      const env = life.variables(part);
      return (await run(life, { argv: ['/bin/bash', '-c', script], part, env })).text.trim();
    };
    const leave = (name: string): string =>
      `for d in . "$HOME" /tmp /dev/shm; do echo $$ > $d/${name}; done; ipcmk -Q > /dev/null; (setsid sleep 100 &); echo >&2 x; ls -d [a-z]*`;
    const look =
      'pwd; ls -A /rollout "$HOME" /tmp /dev/shm | xargs; ipcs -q | grep -c 0x; ps ax | grep -c "[s]leep 100"; touch /rollout/x 2>&1 | grep -o "Read-only file system"; exec 3<> /dev/tcp/127.0.0.1/8088 || echo no policy';
    assert.equal(await part('setup', leave('of_setup')), 'of_setup');
    const of_program = await part(
      'program',
      `ls -A . "$HOME" /tmp /dev/shm | xargs; ipcs -q | grep -c 0x; ${leave('of_program')}`,
    );
    assert.equal(
      of_program,
      '.: of_setup /dev/shm: /tmp: home /tmp/home:\n0\nof_program\nof_setup',
    );
    assert.equal(
      await part('submit', look),
      '/tmp/home\n/dev/shm: /rollout: of_program of_setup /tmp: home /tmp/home:\n0\n0\nRead-only file system\nno policy',
    );
  });

  test('each life is the same to its programs, and leaves nothing', async (t) => {
    const confinement = programs(t);
    const seen = await Promise.all(
      [0, 1].map(async () => {
        const life = await openLife(confinement);
        const said = await shell(
          life,
          'mkdir -p x/y; chmod 0 x; touch /tmp/t; env; id; pwd; hostname; ls -A / /dev /etc; echo $$; cat /proc/mounts | cut -d" " -f2',
        );
        await life.remove();
        return said;
      }),
    );
    assert.equal(seen[0], seen[1]);
  });
});

test('what a program prints stays as it is: its key is the word rollout', { skip }, async (t) => {
  const { exit } = await played(t, { run: { command: ['sh', '-c', 'echo one rollout of many'] } });
  assert.deepEqual([exit.code, exit.tail], [0, 'one rollout of many\n']);
});
