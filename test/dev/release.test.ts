/** `npm run release` in a repository of its own, whose build, recorder and packages are scripted. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { cp, mkdir, mkdtemp, readFile, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

const REAL = [
  '.gitignore',
  'CHANGELOG.md',
  'package.json',
  'package-lock.json',
  'python/durable_rollouts/__init__.py',
  'test/histories',
  'tools/release.mjs',
];
/** Each says that it ran; the recorder leaves a store, and the packages fail where a test wants it. */
const SCRIPTED = {
  'tools/setup.mjs': `log(['setup', ...process.argv.slice(2)]);`,
  'test/releases/record.ts': `
    log(['record', ...process.argv.slice(2)]);
    mkdirSync(\`test/releases/\${process.argv[2]}/store\`, { recursive: true });
    writeFileSync(\`test/releases/\${process.argv[2]}/store/journal.jsonl\`, '{}');`,
  'tools/build-packages.mjs': `
    log(['packages', JSON.parse(readFileSync('package.json', 'utf8')).version, process.argv[2]]);
    if (existsSync('.rollouts/no-packages')) process.exit(1);`,
};
const LOG = `
  import { appendFileSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
  const log = (words) => appendFileSync('.rollouts/calls', words.join(' ') + '\\n');`;

async function repository(t: TestContext) {
  const folder = await mkdtemp(path.join(tmpdir(), 'release-'));
  t.after(() => rm(folder, { recursive: true }));
  const at = (file: string): string => path.join(folder, file);
  for (const file of REAL) await cp(path.join(PROJECT_ROOT, file), at(file), { recursive: true });
  for (const [file, text] of Object.entries(SCRIPTED)) {
    await mkdir(path.dirname(at(file)), { recursive: true });
    await writeFile(at(file), `${LOG}${text}\n`);
  }
  await mkdir(at('.rollouts'));
  const git = (...args: string[]): string =>
    execFileSync('git', args, { cwd: folder, encoding: 'utf8' }).trim();
  git('init', '--quiet');
  git('config', 'user.name', 'tester');
  git('config', 'user.email', 'tester@localhost');
  await writeFile(at('.git/info/exclude'), 'node_modules\n');
  await symlink(path.join(PROJECT_ROOT, 'node_modules'), at('node_modules'));
  const commit = (message: string): void => {
    git('add', '--all');
    git('commit', '--quiet', '--message', message);
  };
  commit('All of it');
  return {
    at,
    git,
    commit,
    read: (file: string) => readFile(at(file), 'utf8'),
    /** As .ci/run and `npm run test:full` end. */
    passes: async () => {
      for (const what of ['ci', 'full'])
        await writeFile(at(`.rollouts/${what}-passed`), `${git('rev-parse', 'HEAD^{tree}')}\n`);
    },
    release: (...args: string[]) => {
      const run = spawnSync(process.execPath, ['tools/release.mjs', ...args], {
        cwd: folder,
        encoding: 'utf8',
      });
      return { code: run.status, said: `${run.stdout}${run.stderr}` };
    },
    calls: () => readFile(at('.rollouts/calls'), 'utf8').catch(() => ''),
  };
}

describe('a release', () => {
  test('is one commit with a tag: version, dated changelog, a store and histories to read later', async (t) => {
    const repo = await repository(t);
    const changes = (await repo.read('CHANGELOG.md')).split('## Unreleased\n')[1];
    await repo.passes();
    const { code, said } = repo.release('7.0.0');
    assert.equal(code, 0, said);
    assert.equal(repo.git('log', '-1', '--format=%s'), 'Release 7.0.0');
    assert.equal(repo.git('rev-parse', 'v7.0.0^{commit}'), repo.git('rev-parse', 'HEAD'));
    assert.equal(repo.git('status', '--porcelain'), '');
    assert.equal(await repo.calls(), 'setup --test\nrecord 7.0.0\npackages 7.0.0 --all\n');

    const lock = JSON.parse(await repo.read('package-lock.json')) as {
      version: string;
      packages: Record<string, { version?: string }>;
    };
    assert.deepEqual([lock.version, lock.packages['']?.version], ['7.0.0', '7.0.0']);
    assert.match(
      await repo.read('python/durable_rollouts/__init__.py'),
      /^__version__ = "7.0.0"$/m,
    );

    const today = new Date().toISOString().slice(0, 10);
    const begun = `# Changelog\n\n## Unreleased\n\n## 7.0.0, ${today}\n${changes}`;
    assert.equal(await repo.read('CHANGELOG.md'), begun);
    const kept = await readdir(repo.at('test/releases/7.0.0/histories'));
    assert.deepEqual(kept, await readdir(repo.at('test/histories')));
    assert.equal(await repo.read('test/releases/7.0.0/store/journal.jsonl'), '{}');
  });

  test('is refused for each thing that is wrong, and says what to do', async (t) => {
    const repo = await repository(t);
    const refused = (version: string, ...reasons: RegExp[]): void => {
      const { code, said } = repo.release(version);
      assert.equal(code, 1, said);
      for (const reason of reasons) assert.match(said, reason);
      assert.equal(said.trim().split(/^release: /m).length - 1, reasons.length, said);
    };
    refused('7.0', /expected a version such as 0\.2\.0, got "7\.0"/);
    refused(
      '7.0.0',
      /\.ci\/run has passed no tree.*run \.ci\/run first/,
      /npm run test:full has passed no tree.*run npm run test:full first/,
    );
    await repo.passes();
    refused('0.0.9', /expected a version from \d+\.\d+\.\d+ on, got 0\.0\.9/);
    await writeFile(repo.at('new.txt'), '');
    refused('7.0.0', /expected a clean tree, got\n\?\? new\.txt/);
    await rm(repo.at('new.txt'));
    assert.equal(repo.release('7.0.0').code, 0);
    await repo.passes();
    refused('7.0.0', /tag v7\.0\.0 is there/, /no section "## Unreleased" with lines/);
    assert.equal(repo.git('log', '--format=%s'), 'Release 7.0.0\nAll of it');
  });

  test('with --dry-run changes nothing and says each step', async (t) => {
    const repo = await repository(t);
    await repo.passes();
    const { code, said } = repo.release('7.0.0', '--dry-run');
    assert.equal(code, 0, said);
    assert.equal(said.match(/^release: would /gm)?.length, 6);
    assert.equal(repo.git('status', '--porcelain') + (await repo.calls()), '');
  });

  test('that fails on the way is not tagged, and says how to begin again', async (t) => {
    const repo = await repository(t);
    await repo.passes();
    await writeFile(repo.at('.rollouts/no-packages'), '');
    const { code, said } = repo.release('7.0.0');
    assert.equal(code, 1);
    assert.match(
      said,
      /Nothing was tagged\. To begin again: git restore \. && git clean -d --force test\/releases/,
    );
    assert.equal(repo.git('tag'), '');
    repo.git('restore', '.');
    repo.git('clean', '--quiet', '-d', '--force', 'test/releases');
    await rm(repo.at('.rollouts/no-packages'));
    assert.equal(repo.release('7.0.0').code, 0);
  });
});
