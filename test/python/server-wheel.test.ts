import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import path from 'node:path';
import { describe, test } from 'node:test';
import { pathToFileURL } from 'node:url';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const TOOL = pathToFileURL(path.join(PROJECT_ROOT, 'tools', 'native-needs.mjs')).href;
/** Programs for every platform, as their makers have built them. */
const RELEASES = path.join(PROJECT_ROOT, 'node_modules', '@temporalio', 'core-bridge', 'releases');

function wheelPlatform(folder: string, platform: string): string {
  const code = `import { wheelPlatform } from ${JSON.stringify(TOOL)};
    console.log(wheelPlatform(...process.argv.slice(1)));`;
  const args = ['--input-type=module', '-e', code, path.join(RELEASES, folder), platform];
  const { stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' });
  return stdout.trim() || stderr;
}

describe("the platform of the server's wheel", () => {
  test('is the oldest system that the programs in it run on', () => {
    assert.match(
      wheelPlatform('x86_64-unknown-linux-gnu', 'linux-x64'),
      /^manylinux_2_\d+_x86_64$/,
    );
    assert.match(
      wheelPlatform('aarch64-unknown-linux-gnu', 'linux-arm64'),
      /^manylinux_2_\d+_aarch64$/,
    );
    assert.match(wheelPlatform('x86_64-apple-darwin', 'darwin-x64'), /^macosx_1\d_\d+_x86_64$/);
    assert.match(wheelPlatform('aarch64-apple-darwin', 'darwin-arm64'), /^macosx_1[1-9]_0_arm64$/);
  });

  test('is refused if a program in it is of another platform', () => {
    for (const [folder, platform] of [
      ['aarch64-unknown-linux-gnu', 'linux-x64'],
      ['x86_64-unknown-linux-gnu', 'darwin-x64'],
      ['x86_64-apple-darwin', 'darwin-arm64'],
    ] as const)
      assert.match(
        wheelPlatform(folder, platform),
        new RegExp(`expected a program for ${platform}; got one for another platform`),
      );
  });
});
