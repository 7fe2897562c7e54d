/** What the scripts of package.json say of themselves, on a fresh clone. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, mkdtemp, readFile, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

/** They are the command, which its own build answers, or programs of others. */
const OTHERS =
  /^node tools\/(setup|release)\.mjs( --start)?( && node dist\/src\/cli\/main\.js .*)?$|^(eslint|prettier|tsc|depcruise|knip)\b/;

const { scripts } = JSON.parse(await readFile(path.join(PROJECT_ROOT, 'package.json'), 'utf8')) as {
  scripts: Record<string, string>;
};

describe('a script of package.json that is asked for --help', () => {
  let clone = '';
  before(async () => {
    clone = await mkdtemp(path.join(tmpdir(), 'rollouts-clone-'));
    for (const folder of ['tools', 'lab'])
      await cp(path.join(PROJECT_ROOT, folder), path.join(clone, folder), { recursive: true });
  });
  after(() => rm(clone, { recursive: true }));

  for (const [name, line] of Object.entries(scripts).filter(([, line]) => !OTHERS.test(line)))
    test(`${name}: says how it is used, and installs and compiles nothing`, async () => {
      const files = await readdir(clone);
      const options = { cwd: clone, encoding: 'utf8', timeout: 60_000 } as const;
      // As npm does.
      const said = execFileSync('sh', ['-c', `${line} --help`], options);
      assert.ok(said.trim().length > 50, said);
      assert.doesNotMatch(said, /\$\{|^set-up:/m);
      assert.deepEqual(await readdir(clone), files);
    });
});
