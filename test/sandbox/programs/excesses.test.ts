import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Excessive } from '../../environments/code/excesses.js';
import { EXCESSES } from '../../environments/code/excesses.js';
import { MIB, openLife, programs, run, shell, skip } from './program-bed.js';

/** Programs that take too much. With nothing around it the code does (test/environments/code/escapes.test.ts). */

const LIMITS = { memory: 256 * MIB, processes: 16, disk: 16 * MIB };

/** Time is not limited here; memory that is only asked for is none; and see docs/sandbox.md for what is not kept out. */
const NOT_HERE = new Set([
  ...['computes for 4 s', 'sleeps for 4 s', 'allocates 400 MiB'],
  'writes 100 MiB into a folder that has another name at each moment',
  ...(process.getuid?.() === 0 ? [] : ['keeps 100 MiB in deleted files that are only mapped']),
]);

const MORE: Excessive[] = [
  {
    name: 'fills 400 MiB',
    code: `block = b'x' * ${400 * MIB}\nlen(block)`,
    through: String(400 * MIB),
    stopped: /used more than 256 MiB of memory \(run\.memory\)/,
  },
  {
    name: 'fills 400 MiB of memory that it shares, by a process that ends',
    code: `import mmap, os
block = mmap.mmap(-1, ${400 * MIB})
if os.fork() == 0:
    for n in range(400):
        block[n * ${MIB} : (n + 1) * ${MIB}] = b'x' * ${MIB}
    os._exit(0)
os.wait()
len(block)`,
    through: String(400 * MIB),
    stopped: /used more than 256 MiB of memory/,
  },
  {
    name: 'writes 100 MiB into what looks like memory',
    code: `for n in range(100):
    with open(f'/dev/shm/{n}', 'wb') as file:
        written = file.write(b'x' * ${MIB})
n`,
    through: '99',
    stopped: /its files took more than 16 MiB/,
  },
];

/** Errors of the kernel: no more processes, a file too large. */
const OF_KERNEL = /BlockingIOError\(11|can't start new thread|OSError\(2[78]/;
const OF_LIMIT =
  /^it (had more than 16 processes|used more than 256 MiB)|^its files took more than 16 MiB/;

/** It stays as it is, for the watch to see; nothing is looked at behind its end. */
const LASTING = `import ast, sys, time
tree, scope = ast.parse(sys.argv[1]), {}
try:
    exec(compile(ast.Module(tree.body[:-1], []), '<code>', 'exec'), scope)
    value = eval(compile(ast.Expression(tree.body[-1].value), '<code>', 'eval'), scope)
except BaseException as error:
    print(repr(error))
else:
    time.sleep(120)
    print(repr(value))`;

describe('programs that take too much are stopped', { skip, concurrency: 2 }, () => {
  for (const { name, code, through } of [...EXCESSES, ...MORE].filter(
    (one) => !NOT_HERE.has(one.name),
  ))
    test(name, async (t) => {
      const life = await openLife(programs(t, { limits: LIMITS }));
      const { excess, text } = await run(life, ['python3', '-c', LASTING, code]);
      const said = excess ?? text;
      assert.match(said, excess === null ? OF_KERNEL : OF_LIMIT);
      assert.ok(typeof through !== 'string' || text.trim() !== through, said);
      await life.remove();
    });

  test('a bomb of shells, with the commands behind it', async (t) => {
    const life = await openLife(programs(t, { limits: LIMITS }));
    const bomb = await life.start({
      argv: ['/bin/bash', '-c', 'b() { b | b & wait; }; b 2> /dev/null; sleep 100'],
      env: life.variables('program'),
    });
    await new Promise((resolve) => setTimeout(resolve, 1000));
    bomb.end();
    assert.equal((await bomb.ended).signal, 'SIGKILL');
    const left = await shell(life, 'ls /proc | grep -c "^[0-9]"');
    assert.ok(Number(left) < 8, left);
    // The limits hold for the next one, too.
    const filling = await run(life, ['python3', '-c', LASTING, `block = b'x' * ${400 * MIB}\n1`]);
    assert.match(filling.excess ?? '', /256 MiB of memory/);
    const again = await run(life, ['python3', '-c', LASTING, `block = b'x' * ${400 * MIB}\n1`]);
    assert.match(again.excess ?? '', /256 MiB of memory/);
  });

  test('output without end, of which the ends are kept', async (t) => {
    const life = await openLife(programs(t));
    const argv: [string, ...string[]] = [
      '/bin/bash',
      '-c',
      'head -c 200000000 /dev/zero | tr "\\0" y; echo end',
    ];
    const { code, output, is_cut, tail } = await run(life, argv);
    assert.deepEqual([code, output.length, is_cut], [0, MIB, true]);
    assert.match(tail, /^y{1000,20000}end\n$/);
  });
});
