import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, test } from 'node:test';
import { ApplicationFailure } from '@temporalio/common';
import { createTerminal, readable, readableLines, withCauses } from '../../src/workers/log.js';

const failure = (): ApplicationFailure =>
  ApplicationFailure.create({
    type: 'StoreFault',
    message: 'journal of b/0-0',
    cause: new Error('EIO: i/o error'),
  });

/** A line as pino writes it. */
const line = (fields: object): string =>
  `${JSON.stringify({ level: 40, time: 0, pid: 7, hostname: 'h', name: 'worker', ...fields })}\n`;

describe('the log of a worker', () => {
  test('says of an error its type and its causes, which JSON alone would not', () => {
    assert.equal(JSON.stringify({ error: new Error('x') }), '{"error":{}}');
    const { error, attempt } = withCauses({ error: failure(), attempt: 3 }) as {
      error: Record<string, string>;
      attempt: number;
    };
    assert.equal(error['type'], 'StoreFault');
    assert.equal(error['message'], 'journal of b/0-0: EIO: i/o error');
    assert.match(error['stack'] ?? '', /log\.test/);
    assert.equal(attempt, 3);
  });

  test('is read on a terminal: time, level, text, fields, and nothing of the process', () => {
    const fields = withCauses({ error: failure(), workflowId: 'b/0-0', taskToken: 'x' });
    const text = readable(line({ ...fields, msg: 'Activity failed' }));
    assert.match(
      text,
      /^\d\d:\d\d:\d\d WARN {2}Activity failed {2}error=StoreFault: journal of b\/0-0: EIO: i\/o error {2}workflowId=b\/0-0\n$/,
    );
  });

  test('is read in the end of a log file too, which may begin in a line and has lines of others', () => {
    const tail = `:"worker","msg":"cut"}\n${line({ msg: 'waiting' })}no log: {"a":1}\n{"a":1}`;
    assert.match(
      readableLines(tail),
      /^:"worker","msg":"cut"}\n\d\d:\d\d:\d\d WARN {2}waiting\nno log: {"a":1}\n{"a":1}$/,
    );
  });

  test('shows on a terminal the stack of a fatal error only', () => {
    const fields = withCauses({ error: failure() });
    const text = readable(line({ ...fields, level: 50, msg: 'Worker failed' }));
    assert.match(
      text,
      /\n {4}StoreFault: journal of b\/0-0|\n {4}ApplicationFailure: journal of b\/0-0/,
    );
    assert.match(text, /\n {8}at .*log\.test/);
  });

  test('lets no command of what others said through to the terminal', () => {
    const said = 'no \u001b[2Jroom\u001b]0;owned\u0007\nand more';
    const error = withCauses({ error: new Error(said) });
    const text = readable(line({ ...error, level: 50, msg: said }));
    assert.doesNotMatch(text, /[\u001b\u0007]|owned/);
    assert.match(
      text.split('\n')[0] ?? '',
      /ERROR no room and more {2}error=Error: no room and more$/,
    );
  });

  test('says a wait on a terminal once in half a minute, whoever waits and however often', () => {
    let now = 0;
    const shown = createTerminal(() => now);
    const service = 'http://gpu/v1';
    const wait = (fields: object): string =>
      shown(line({ service, message: `${service}: refused`, ...fields, msg: 'waiting' }));
    assert.match(
      wait({ workflow_id: 'b/0-0', tries: 1 }),
      /WARN {2}waiting {2}message=http:\/\/gpu\/v1: refused {2}workflow_id=b\/0-0 {2}tries=1\n$/,
    );
    const error = { type: 'GenerationUnavailable', message: 'refused' };
    assert.equal(shown(line({ error, msg: 'Activity failed' })), '');
    now = 29_000;
    assert.equal(wait({ workflow_id: 'b/0-1', tries: 8 }), '');
    assert.match(wait({ message: 'another reason' }), /another reason/);
    now = 31_000;
    assert.match(wait({ workflow_id: 'b/0-0', tries: 16 }), /tries=16 {2}more=1\n$/);
    assert.match(
      shown(line({ error: { ...error, type: 'StoreFault' }, msg: 'Activity failed' })),
      /StoreFault/,
    );
  });

  test('is JSON if it is not a terminal', () => {
    const source = `
      const { createLog } = await import(${JSON.stringify(import.meta.resolve('../../src/workers/log.js'))});
      createLog('info').warn({ error: new Error('outer', { cause: new Error('inner') }) }, 'it failed');
    `;
    const run = spawnSync(process.execPath, ['--input-type=module', '-e', source], {
      encoding: 'utf8',
    });
    const { error, msg, level } = JSON.parse(run.stdout) as {
      error: { message: string };
      msg: string;
      level: number;
    };
    assert.deepEqual([error.message, msg, level], ['outer: inner', 'it failed', 40]);
  });
});
