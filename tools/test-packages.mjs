import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';

/**
 * The built packages as a newcomer has them: an empty folder, an empty home and no caches. Prints the seconds of each
 * part. Needs npm, Python 3.10 or later, a package index of each, and nothing of this checkout but dist-packages.
 */

const root = fileURLToPath(new URL('../', import.meta.url));

const built = (ending) => {
  const folder = path.join(root, 'dist-packages');
  const found = readdirSync(folder).filter((name) => name.endsWith(ending));
  assert.equal(found.length, 1, `expected one ${ending} in ${folder}, got ${found.join(', ')}`);
  return path.join(folder, found[0]);
};

const scratch = mkdtempSync(path.join(tmpdir(), 'durable-rollouts-newcomer-'));
const home = path.join(scratch, 'home');
const folder = path.join(scratch, 'empty');
for (const one of [home, folder]) mkdirSync(one);

const KEPT =
  /^(PATH|LANG|CI|.*_proxy|SSL_.*|NODE_EXTRA_CA_CERTS|PIP_(CERT|INDEX_URL|FIND_LINKS))$/i;
const env = {
  ...Object.fromEntries(Object.entries(process.env).filter(([name]) => KEPT.test(name))),
  HOME: home,
};

async function step(what, command, ...args) {
  const began = performance.now();
  const { stdout } = await promisify(execFile)(command, args, {
    cwd: folder,
    env,
    maxBuffer: 1 << 26,
  }).catch((error) => {
    throw new Error(`${what}: ${error.message}\n${error.stdout}`);
  });
  console.log(`${((performance.now() - began) / 1000).toFixed(1).padStart(6)} s  ${what}`);
  return stdout;
}

/** The README's Python lines, whose `local()` finds the npm package's command in this folder and starts a stack. */
function readmeLines() {
  const text = readFileSync(path.join(root, 'README.md'), 'utf8');
  const [, lines] = /```python\n(from durable_rollouts import local[^]*?)```/.exec(text) ?? [];
  assert.ok(lines, 'README.md has no Python lines that import local');
  const file = path.join(folder, 'sums.py');
  writeFileSync(file, lines);
  return file;
}

async function npmPackage() {
  const rollout = path.join(folder, 'node_modules', '.bin', 'temporal-rollout');
  await step('npm install', 'npm', 'install', '--no-audit', '--no-fund', built('.tgz'));
  const said = await step('up --exit, with the Temporal CLI', 'npx', 'temporal-rollout', 'up', '--exit'); // prettier-ignore
  assert.match(said, /^64 of 64 rollouts completed$/m);
  await step('up --exit again', rollout, 'up', '--exit');
  const listed = await step('list', rollout, 'list', '--json').catch((error) => error.message);
  assert.match(listed, /puzzle-/);
  const installed = path.join(folder, 'node_modules', 'durable-rollouts');
  assert.ok(existsSync(path.join(folder, '.rollouts', 'trajectories')));
  assert.ok(!existsSync(path.join(installed, '.rollouts')), 'state inside node_modules');
  return rollout;
}

async function wheel(rollout) {
  const python = path.join(scratch, 'venv', 'bin', 'python');
  await step('python -m venv', 'python3', '-m', 'venv', path.join(scratch, 'venv'));
  await step('pip install', python, '-m', 'pip', 'install', '--quiet', built('.whl'));
  const about = await step('python -m durable_rollouts', python, '-m', 'durable_rollouts');
  assert.ok(about.includes(rollout), about);
  const said = await step("the README's Python lines", python, readmeLines());
  assert.match(said, /^\(16, \d+\) /m);
}

try {
  await wheel(await npmPackage());
} finally {
  rmSync(scratch, { recursive: true, force: true });
}
