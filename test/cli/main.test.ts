import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const MAIN = path.join(PROJECT_ROOT, 'src', 'cli', 'main.ts');

function run(...args: string[]): Promise<{ code: unknown; stdout: string; stderr: string }> {
  return new Promise((resolve) => {
    const command = ['--import', 'tsx', MAIN, ...args];
    const options = { cwd: PROJECT_ROOT, timeout: 120_000 };
    execFile(process.execPath, command, options, (failure, stdout, stderr) => {
      resolve({ code: failure?.code ?? 0, stdout, stderr });
    });
  });
}

describe('a mistyped', () => {
  test('command is answered last of all with the one that it probably means', async () => {
    const { code, stderr } = await run('sho');
    assert.equal(code, 2);
    assert.match(stderr, /\nunknown command "sho"; did you mean show\?\n$/);
  });

  test('setting is named by check, with the others and once each', async (t) => {
    const file = path.join(await temporaryFolder(t), 'temporal.yaml');
    await writeFile(file, 'generation: {}\nenviroments: {}\n');
    const { code, stdout } = await run('check', '--json', '--config', file);
    assert.equal(code, 1);
    const { part, what } = JSON.parse(stdout) as { part: string; what: string };
    assert.equal(part, 'settings');
    assert.equal(
      what,
      `${file} is not valid: environments: expected record, got nothing; enviroments: unknown field; did you mean environments?`,
    );
  });
});
