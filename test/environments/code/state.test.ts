import assert from 'node:assert/strict';
import { after, describe, test } from 'node:test';
import { faultOf } from '../../fakes/temporary-store.js';
import { codeBed, createRollout, processesNamed } from './code-bed.js';
import { eventually } from '../../../lab/bed/waiting.js';

/** Whose variables are where, and what becomes of them when an interpreter is lost. `standard` semantics. */

const unsafe = process.platform !== 'linux';
const { environment, rollout } = codeBed({ after }, { unsafe, timeout: '60s' });

/** Ends the interpreter from outside, between two turns, as a crash would. */
const LOSE = `import ctypes, os
ctypes.CDLL(None).prctl(15, b'NAME', 0, 0, 0)
'named'`;

async function loseInterpreter(name: string): Promise<void> {
  for (const pid of processesNamed(name)) process.kill(pid, 'SIGKILL');
  await eventually('its end', () => processesNamed(name).length === 0);
}

describe('variables of a rollout', () => {
  test('functions call themselves, modules and classes stay, across turns', async () => {
    const one = rollout();
    await one.run('def f(n): return 1 if n < 2 else n * f(n - 1)\nimport math');
    await one.run('class P:\n    def __init__(self): self.v = f(5)');
    assert.equal(await one.run('P().v + math.floor(1.5)'), '121');
  });

  test('two rollouts see nothing of each other', async () => {
    const [one, two] = [rollout(), rollout()];
    await one.run('x = 1');
    assert.equal(await two.run('x'), `NameError("name 'x' is not defined")`);
  });

  test('an exception keeps what happened before it', async () => {
    const one = rollout();
    assert.equal(await one.run('x = 1\n1 / 0'), `ZeroDivisionError('division by zero')`);
    assert.equal(await one.run('x'), '1');
  });

  test('code that is ended leaves the state that was before its message', async (t) => {
    const one = codeBed(t, { unsafe, timeout: '2s' }).rollout();
    await one.run('x = 1');
    const said = await one.run('x = 2\nwhile True: pass');
    assert.match(said, /^TimeoutError\('the code ran for more than 2 s; nothing of this message/);
    assert.equal(await one.run('x'), '1');
    const ended = await one.run('x = 3\nimport os\nos._exit(0)');
    assert.match(ended, /^RuntimeError\('the code ended the interpreter; nothing of this/);
    assert.equal(await one.run('x'), '1');
  });

  test('a lost interpreter is made again from the log: variables, files and random numbers', async () => {
    const one = rollout();
    await one.run('import random\nx = random.random()\nopen("f", "w").write("text")');
    const first = await one.run('x, {"b", "a", "c"}');
    const name = `lose-${one.key.slice(0, 8)}`;
    await one.run(LOSE.replace('NAME', name));
    await loseInterpreter(name);
    assert.equal(await one.run('x, {"b", "a", "c"}'), first);
    assert.equal(await one.run('open("f").read()'), `'text'`);
  });

  test('an interpreter that is killed while code runs runs it again', async () => {
    const one = rollout();
    await one.run('x = 1');
    const name = `kill-${one.key.slice(0, 8)}`;
    const running = one.run(`${LOSE.replace('NAME', name)}\nimport time\ntime.sleep(1)\nx`);
    await eventually('its process', () => processesNamed(name).length > 0);
    await loseInterpreter(name);
    assert.equal(await running, '1');
  });

  test('names of folders and temporary files are no difference when code runs again', async () => {
    const one = rollout();
    await one.run(
      'import os, tempfile\n(os.getcwd(), os.path.abspath("x"), os.path.basename(tempfile.mkdtemp()))',
    );
    await one.run('y = 2');
    one.key = 'elsewhere';
    assert.equal(await one.run('y'), '2');
  });

  test('code that does not do again what it did is the fault StateLost', async () => {
    const one = rollout();
    const first = await one.run('import time\ntime.time()');
    one.key = 'elsewhere';
    await assert.rejects(
      one.run('1'),
      faultOf('StateLost', 'message 1 gave another result when it ran again', first),
    );
  });

  test('addresses may differ', async () => {
    const one = rollout();
    await one.run('class P: pass\nP()');
    one.key = 'another place';
    assert.equal(await one.run('1'), '1');
  });

  test('a turn that is asked for twice happens once', async () => {
    const one = rollout();
    await one.run('n = 0');
    const again = createRollout(environment, { key: one.key });
    [again.log, again.metadata] = [one.log, one.metadata];
    assert.equal(await one.run('n += 1\nn, __import__("time").time_ns() * 0'), '(1, 0)');
    assert.equal(await again.run('n += 1\nn, __import__("time").time_ns() * 0'), '(1, 0)');
    assert.equal(await again.run('n'), '1', 'and the state is that of one');
    again.log = one.log.slice(0, 3);
    again.metadata = { executed_messages: [1] };
    assert.equal(
      await again.run('n += 10\nn'),
      '10',
      'another answer at the same turn starts before it',
    );
  });

  test('an aborted step ends its code at once and rejects with the reason', async () => {
    const controller = new AbortController();
    const one = rollout({ signal: controller.signal });
    const running = one.run('import time\ntime.sleep(9)');
    setTimeout(() => {
      controller.abort(new Error('cancelled'));
    }, 300);
    await assert.rejects(running, /cancelled/);
  });

  test('metadata that the log does not bear out is rejected by its field', async () => {
    for (const [metadata, text] of [
      [{ executed_messages: [0] }, 'executed_messages.0'],
      [{ executed_messages: 'all' }, 'executed_messages'],
      [{ context: { x: 1 } }, 'context'],
    ] as const) {
      const one = rollout();
      one.metadata = metadata;
      await assert.rejects(one.run('1'), faultOf('EnvironmentRejected', text));
    }
  });
});

describe('interpreters', () => {
  test('beyond max_sandboxes the one unused for longest gives way, and comes back', async (t) => {
    const bed = codeBed(t, { unsafe, max_sandboxes: 2 });
    const rollouts = [bed.rollout(), bed.rollout(), bed.rollout()];
    const names = rollouts.map(({ key }) => `many-${key.slice(0, 8)}`);
    for (const [i, one] of rollouts.entries()) {
      await one.run(`x = ${i}`);
      await one.run(LOSE.replace('NAME', names[i] ?? ''));
    }
    assert.deepEqual(
      names.map((name) => processesNamed(name).length),
      [0, 1, 1],
    );
    assert.deepEqual(await Promise.all(rollouts.map((one) => one.run('x'))), ['0', '1', '2']);
  });

  test('an interpreter that is not used for idle_timeout ends', async (t) => {
    const bed = codeBed(t, { unsafe, idle_timeout: '2s' });
    const one = bed.rollout();
    const name = `idle-${one.key.slice(0, 8)}`;
    await one.run('x = 1');
    await one.run(LOSE.replace('NAME', name));
    assert.equal(processesNamed(name).length, 1);
    await eventually('its end', () => processesNamed(name).length === 0);
    assert.equal(await one.run('x'), '1');
  });

  test('where no level can be had a step is refused with what is missing, and unsafe is named', async (t) => {
    const bed = codeBed(t, { python: '/nowhere/python3' });
    const refused = faultOf('EnvironmentUnavailable', '/nowhere/python3', 'unsafe: true', 'url');
    await assert.rejects(bed.rollout().run('1'), refused);
    await assert.rejects(
      async () => bed.environment.health?.(new AbortController().signal),
      refused,
    );
  });
});
