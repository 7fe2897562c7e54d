/** What a worker's process writes beside its log is lines of its log. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';

const moduleOf = (name: string): string =>
  JSON.stringify(import.meta.resolve(`../../src/workers/${name}.js`));

interface Line {
  level: number;
  msg: string;
  stream?: string;
  warning?: string;
}

/** Plays this in a process whose outputs are lines of its log, and returns those. */
function linesOf(source: string, env: Record<string, string> = {}): Line[] {
  const program = `
    const { createLog, takeOutputOfOthers } = await import(${moduleOf('log')});
    const giveBack = takeOutputOfOthers(createLog('info'));
    ${source}
    await new Promise((resolve) => setTimeout(resolve, 100));
    giveBack();
    console.error('its own');
  `;
  const args = ['--input-type=module', '-e', program];
  const run = spawnSync(process.execPath, args, {
    encoding: 'utf8',
    env: { ...process.env, ...env },
  });
  assert.equal(run.stderr, 'its own\n');
  return run.stdout
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Line);
}

describe('lines of a worker’s log', () => {
  test('are what modules and libraries print, line by line', () => {
    const lines = linesOf(`
      console.log('one\\n\\x1b[31mtwo\\x1b[0m');
      process.stdout.write('th');
      console.error('an error');
      process.stdout.write(Buffer.from('ree — ü').subarray(0, -1));
      process.stdout.write(Buffer.from('ü').subarray(-1));
      process.stderr.write('x'.repeat(70000));
    `);
    assert.deepEqual(
      lines.map(({ level, stream, msg }) => [level, stream, msg.slice(0, 9), msg.length]),
      [
        [30, 'stdout', 'one', 3],
        [30, 'stdout', 'two', 3],
        [40, 'stderr', 'an error', 8],
        [40, 'stderr', 'xxxxxxxxx', 70_000],
        [30, 'stdout', 'three — ü', 9],
      ],
    );
  });

  test('are the warnings of Node.js, unless nobody wants them', () => {
    const source = `
      const { EventEmitter } = await import('node:events');
      const emitter = new EventEmitter();
      for (let n = 0; n < 11; n++) emitter.on('abort', () => undefined);
      process.emitWarning('old', 'DeprecationWarning');
    `;
    const [many, old] = linesOf(source);
    assert.deepEqual([many?.level, many?.warning], [40, 'MaxListenersExceededWarning']);
    assert.match(many?.msg ?? '', /^Possible EventEmitter memory leak detected/);
    assert.deepEqual([old?.warning, old?.msg], ['DeprecationWarning', 'old']);
    assert.deepEqual(linesOf(source, { NODE_NO_WARNINGS: '1' }), []);
  });

  test('are what is printed in threads', () => {
    const lines = linesOf(`
      const { Worker } = await import('node:worker_threads');
      const text = "console.log('from a thread'); console.error('not well')";
      const thread = new Worker(text, { eval: true });
      await new Promise((resolve) => thread.once('exit', resolve));
    `);
    assert.deepEqual(lines.map(({ msg }) => msg).sort(), ['from a thread', 'not well']);
  });

  test('do not keep who prints waiting', () => {
    const lines = linesOf(`
      await new Promise((resolve) => process.stdout.write('written\\n', resolve));
      await new Promise((resolve) => process.stdout.write('bits\\n', 'latin1', resolve));
    `);
    assert.deepEqual(
      lines.map(({ msg }) => msg),
      ['written', 'bits'],
    );
  });
});
