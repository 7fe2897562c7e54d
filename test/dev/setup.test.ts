import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { temporaryFolder, writeProgram } from './fakes.js';
import { eventually } from '../../lab/bed/waiting.js';

/** `npm ci` that makes a compiler, which "compiles" by copying, and bundles a page. Both count their runs in files. */
const FAKE_NPM = `
import fs from 'node:fs';
fs.appendFileSync('npm.log', process.argv.slice(2).join(' ') + '\\n');
fs.rmSync('node_modules', { recursive: true, force: true });
if (fs.existsSync('slow')) {
  process.on('SIGINT', () => setTimeout(() => { fs.writeFileSync('tidied', ''); process.exit(1); }, 300));
  fs.writeFileSync('waits', '');
  await new Promise((resolve) => setTimeout(resolve, 20_000));
}
if (fs.existsSync('no-network')) { console.error('npm error network'); process.exit(1); }
for (const folder of ['esbuild', 'typescript/bin']) fs.mkdirSync('node_modules/' + folder, { recursive: true });
fs.writeFileSync('node_modules/typescript/bin/tsc', '');
fs.writeFileSync('node_modules/esbuild/package.json', '{ "type": "module", "exports": "./index.js" }');
setTimeout(() => fs.copyFileSync('fake-esbuild.js', 'node_modules/esbuild/index.js'), 300);`;
const FAKE_ESBUILD = `
import fs from 'node:fs';
export async function build({ bundle, outdir }) {
  if (bundle) return;
  fs.appendFileSync('esbuild.log', 'run\\n');
  if (fs.existsSync('src/wrong.js')) throw new Error('Build failed with 1 error:\\nsrc/wrong.js:1:1: ERROR: wrong');
  fs.cpSync('src', outdir + '/src', { recursive: true });
}`;
const BUNDLER = `import { writeFileSync } from 'node:fs';
writeFileSync(new URL('../workflow-bundle.js', import.meta.url), 'bundle');`;

async function freshClone(t: TestContext) {
  const folder = await temporaryFolder(t);
  const at = (...parts: string[]) => path.join(folder, ...parts);
  await cp('tools', at('tools'), {
    recursive: true,
    filter: (file) => !file.includes('temporal-cli'),
  });
  for (const name of ['cli', 'workers']) await mkdir(at('src', name), { recursive: true });
  await writeFile(at('package.json'), '{ "type": "module" }');
  await writeFile(at('package-lock.json'), '{ "packages": {} }');
  await writeFile(at('src', 'cli', 'main.js'), '');
  await writeFile(at('src', 'workers', 'build-bundle.js'), BUNDLER);
  await writeFile(at('fake-esbuild.js'), FAKE_ESBUILD);
  await writeProgram(at('bin', 'npm'), FAKE_NPM);
  /** In a process group of its own, as a shell starts it. */
  const start = () => {
    const child = spawn(process.execPath, [at('tools', 'setup.mjs')], {
      cwd: folder,
      env: { PATH: at('bin') },
      detached: true,
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (data: Buffer) => (output += data.toString()));
    const ended = new Promise<{ code: number | null; output: string }>((resolve) => {
      child.once('close', (code) => {
        resolve({ code, output });
      });
    });
    return { child, ended };
  };
  const setUp = () => start().ended;
  const runs = async (log: string) =>
    (await readFile(at(log), 'utf8').catch(() => '')).split('\n').length - 1;
  return { at, start, setUp, runs };
}

describe('set-up', () => {
  test('installs and builds a fresh clone, and does nothing the second time', async (t) => {
    const { at, setUp, runs } = await freshClone(t);
    const { code, output } = await setUp();
    assert.equal(code, 0, output);
    assert.match(
      output,
      /installing packages with `npm ci`, about a minute …\n(.*took.*\n)?.*compiling.*\n.*bundling/,
    );
    assert.equal(await readFile(at('dist', 'src', 'workflow-bundle.js'), 'utf8'), 'bundle');
    assert.deepEqual(await setUp(), { code: 0, output: '' });
    assert.deepEqual([await runs('npm.log'), await runs('esbuild.log')], [1, 1]);
  });

  test('builds again when a source changed, without files of sources that are gone', async (t) => {
    const { at, setUp, runs } = await freshClone(t);
    await writeFile(at('src', 'old.js'), '');
    await setUp();
    await rm(at('src', 'old.js'));
    assert.equal((await setUp()).code, 0);
    assert.deepEqual((await readdir(at('dist', 'src'))).sort(), [
      'cli',
      'workers',
      'workflow-bundle.js',
    ]);
    assert.deepEqual([await runs('npm.log'), await runs('esbuild.log')], [1, 2]);
  });

  test('keeps the last build when a new one fails, and shows the compiler’s words', async (t) => {
    const { at, setUp } = await freshClone(t);
    await setUp();
    await writeFile(at('src', 'wrong.js'), '');
    const { code, output } = await setUp();
    assert.equal(code, 1);
    assert.match(
      output,
      /^set-up failed: Build failed with 1 error:\nsrc\/wrong\.js:1:1: ERROR: wrong$/m,
    );
    assert.ok((await readdir(at('dist', 'src'))).includes('workflow-bundle.js'));
    await rm(at('src', 'wrong.js'));
    assert.deepEqual(
      await setUp(),
      { code: 0, output: '' },
      'what is there is what the sources say again',
    );
  });

  test('says what npm said when packages cannot be installed', async (t) => {
    const { at, setUp } = await freshClone(t);
    await writeFile(at('no-network'), '');
    const { code, output } = await setUp();
    assert.equal(code, 1);
    assert.match(
      output,
      /`npm ci .* failed: exit code 1\n {2}\| npm error network\nCheck the network/,
    );
  });

  test('waits, after Ctrl-C, until npm has tidied up', async (t) => {
    const { at, start, setUp } = await freshClone(t);
    await writeFile(at('slow'), '');
    const { child, ended } = start();
    await eventually('npm at work', () => existsSync(at('waits')));
    // As a terminal does: to every process of the group.
    process.kill(-child.pid!, 'SIGINT');
    const { code, output } = await ended;
    assert.equal(code, 130, output);
    assert.match(output, /^set-up failed: interrupted; the next start does what is missing$/m);
    assert.ok(existsSync(at('tidied')), 'npm still runs');
    await rm(at('slow'));
    assert.equal((await setUp()).code, 0);
  });

  test('installs again when the lock file changed', async (t) => {
    const { at, setUp, runs } = await freshClone(t);
    await setUp();
    await writeFile(
      at('package-lock.json'),
      '{ "packages": { "node_modules/a": { "version": "1.0.0" } } }',
    );
    assert.equal((await setUp()).code, 0);
    assert.equal(await runs('npm.log'), 2);
  });

  test('does its work once when it is run several times at once', async (t) => {
    const { setUp, runs } = await freshClone(t);
    const all = await Promise.all([setUp(), setUp(), setUp()]);
    assert.deepEqual(
      all.map(({ code }) => code),
      [0, 0, 0],
    );
    assert.match(
      all.map(({ output }) => output).join(),
      /waiting for another set-up of this folder \(process \d+\)/,
    );
    assert.deepEqual([await runs('npm.log'), await runs('esbuild.log')], [1, 1]);
  });

  test('takes over from a set-up that was killed', async (t) => {
    const { at, setUp } = await freshClone(t);
    await mkdir(at('.rollouts', 'build'), { recursive: true });
    await writeFile(at('.rollouts', 'setup.lock'), '{"pid":2147483646,"token":1}');
    await writeFile(at('.rollouts', 'build', 'half.js'), '');
    assert.equal((await setUp()).code, 0);
    assert.ok(!(await readdir(at('dist', 'src'))).includes('half.js'));
    assert.deepEqual(await readdir(at('.rollouts')), []);
  });
});
