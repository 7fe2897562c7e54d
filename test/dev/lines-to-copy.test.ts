import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { linesToCopy } from '../../src/dev/lines-to-copy.js';
import type { TemporalCli } from '../../src/dev/temporal-cli.js';
import { temporaryFolder, writeProgram } from './fakes.js';

const cliOf = (source: TemporalCli['source'], file = '/usr/bin/temporal') =>
  ({ path: file, source }) as TemporalCli;
const STACK = { root: '/p/rollouts', address: '127.0.0.1:7234', namespace: 'default' };

describe('the lines that a stack prints to be copied', () => {
  test('name its folder, its address, and the programs that are not on the path', () => {
    const lines = linesToCopy({ ...STACK, cli: cliOf('cache', '/c/temporal'), env: { PATH: '' } });
    assert.deepEqual(lines.slice(0, 3), [
      'cd /p/rollouts',
      'export TEMPORAL_ADDRESS=127.0.0.1:7234',
      'alias temporal=/c/temporal',
    ]);
    assert.match(lines[3] ?? '', /^alias temporal-rollout='node .*\/cli\/main\.js'$/);
  });

  test('name no program that is on the path', async (t) => {
    const folder = await temporaryFolder(t);
    await writeProgram(path.join(folder, 'temporal-rollout'), '');
    const lines = linesToCopy({ ...STACK, cli: cliOf('PATH'), env: { PATH: folder } });
    assert.deepEqual(lines, ['cd /p/rollouts', 'export TEMPORAL_ADDRESS=127.0.0.1:7234']);
  });

  test('take away what leads to another server', () => {
    const env = { PATH: '', TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: 'true', TEMPORAL_NAMESPACE: 'x' };
    const lines = linesToCopy({ ...STACK, cli: cliOf('PATH'), env });
    assert.equal(lines[1], 'unset TEMPORAL_API_KEY TEMPORAL_TLS');
    assert.equal(lines[3], 'export TEMPORAL_NAMESPACE=default');
  });

  test('are read by a shell as they are meant, whatever is in a path', async (t) => {
    const folder = await temporaryFolder(t);
    const program = path.join(folder, "it's a place", 'temporal');
    await writeProgram(program, 'console.log("here")');
    const [cd = '', , alias = ''] = linesToCopy({
      ...STACK,
      root: path.dirname(program),
      cli: cliOf('cache', program),
      env: { PATH: '' },
    });
    const script = `shopt -s expand_aliases\n${cd} && ls\n${alias}\ntemporal\n`;
    assert.equal(execFileSync('bash', ['-c', script]).toString(), 'temporal\nhere\n');
  });
});
