import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readdir, realpath } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { linesToCopy } from '../../dev/lines-to-copy.js';
import { putPrograms } from '../../dev/programs-folder.js';
import type { TemporalCli } from '../../tools/temporal-cli/find.js';
import { temporaryFolder, writeProgram } from './fakes.js';

const STACK = { root: '/p/rollouts', address: '127.0.0.1:7234', namespace: 'default' };
const NONE = { ...STACK, programs: null };

describe('the lines that a stack prints to be copied', () => {
  test('name its folder, the folder of programs that are not on the path, and its address', () => {
    const lines = linesToCopy({ ...STACK, programs: '/p/.rollouts/bin', env: { PATH: '' } });
    assert.deepEqual(lines, [
      'cd /p/rollouts',
      'export PATH=/p/.rollouts/bin:$PATH',
      'export TEMPORAL_ADDRESS=127.0.0.1:7234',
    ]);
    const [, ...without] = linesToCopy({ ...NONE, env: { PATH: '' } });
    assert.deepEqual(without, ['export TEMPORAL_ADDRESS=127.0.0.1:7234']);
  });

  test('take away what leads to another server', () => {
    const env = { PATH: '', TEMPORAL_API_KEY: 'k', TEMPORAL_TLS: 'true', TEMPORAL_NAMESPACE: 'x' };
    const lines = linesToCopy({ ...NONE, env });
    assert.equal(lines[1], 'unset TEMPORAL_API_KEY TEMPORAL_TLS');
    assert.equal(lines[3], 'export TEMPORAL_NAMESPACE=default');
  });

  test('lead past a proxy, unless it is not asked for this machine already', () => {
    const proxy = { https_proxy: 'http://proxy:3128' };
    assert.equal(
      linesToCopy({ ...NONE, env: { ...proxy, NO_PROXY: 'intranet' } }).at(-1),
      'export no_proxy=intranet,127.0.0.1,localhost NO_PROXY=intranet,127.0.0.1,localhost',
    );
    for (const env of [{ ...proxy, no_proxy: 'localhost, 127.0.0.1' }, { HTTPS_PROXY: '' }])
      assert.doesNotMatch(linesToCopy({ ...NONE, env }).join('\n'), /proxy/i);
  });

  test('are read by a shell as they are meant, whatever is in a path', async (t) => {
    const folder = path.join(await temporaryFolder(t), "it's a place");
    const program = await writeProgram(
      path.join(folder, 'elsewhere', 'temporal'),
      'console.log("here")',
    );
    const cli = { path: program, source: 'cache' } as TemporalCli;
    const programs = await putPrograms(folder, { cli, env: { PATH: '' } });
    const lines = linesToCopy({ ...STACK, root: folder, programs, env: { PATH: '' } });
    const script = [...lines, 'ls', 'temporal', 'temporal-rollout --help'].join('\n');
    const said = execFileSync('bash', ['-c', script]).toString();
    assert.match(said, /^bin\nelsewhere\nhere\ntemporal-rollout: durable rollouts/);
  });
});

describe('the folder of programs', () => {
  test('has all of them, and is named where one is not on the path', async (t) => {
    const folder = await temporaryFolder(t);
    const system = path.join(folder, 'system');
    await writeProgram(path.join(folder, 'on-path', 'temporal-rollout'), '');
    const env = { PATH: `${path.join(folder, 'on-path')}:${system}` };
    const onPath = {
      path: await writeProgram(path.join(system, 'temporal'), ''),
      source: 'PATH',
    } as TemporalCli;
    const bin = path.join(folder, 'bin');
    const putInto = async (cli: TemporalCli, where: NodeJS.ProcessEnv): Promise<string | null> => {
      const named = await putPrograms(folder, { cli, env: where });
      assert.deepEqual(await readdir(bin), ['temporal', 'temporal-rollout']);
      return named;
    };
    assert.equal(await putInto(onPath, env), null);
    // npx and an activated environment put it on the path of this terminal alone.
    for (const own of [path.join('node_modules', '.bin'), path.join('venv', 'bin')]) {
      await writeProgram(path.join(folder, own, 'temporal-rollout'), '');
      const PATH = `${path.join(folder, own)}:${system}`;
      const here = { PATH, VIRTUAL_ENV: path.join(folder, 'venv') };
      assert.equal(await putInto(onPath, here), bin, own);
    }
    // pip puts the Temporal CLI there, too.
    const ofVenv = {
      path: await writeProgram(path.join(folder, 'venv', 'bin', 'temporal'), ''),
      source: 'PATH',
    } as TemporalCli;
    const inVenv = {
      PATH: path.join(folder, 'venv', 'bin'),
      VIRTUAL_ENV: path.join(folder, 'venv'),
    };
    assert.equal(await putInto(ofVenv, inVenv), bin);
    assert.equal(await putInto({ ...onPath, source: 'cache' }, env), bin);
    // A shell with this stack's lines finds the CLI here, and other shells do not have them.
    const itself = { path: path.join(bin, 'temporal'), source: 'PATH' } as TemporalCli;
    assert.equal(await putInto(itself, { PATH: bin }), bin);
    assert.equal(await realpath(path.join(bin, 'temporal')), await realpath(onPath.path));
  });
});
