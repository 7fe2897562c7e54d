import { execFileSync } from 'node:child_process';
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { PLATFORM_NAMES } from './native-needs.mjs';
import { serverWheel } from './server-wheel.mjs';

/**
 * Makes the packages in `dist-packages` from a finished build: npm's, the wheel of the Python packages, and the wheel
 * that has npm's package for machines without npm. That one is of this platform; `--all` makes those of all platforms.
 * Each is made from a copy, so nothing is left in the sources.
 */

const root = fileURLToPath(new URL('../', import.meta.url));
const out = path.join(root, 'dist-packages');

/** Of a checkout alone. PostgreSQL's programs are for tests and `cluster`, which takes those on PATH, too. */
const NOT_PUBLISHED = ['devDependencies', 'optionalDependencies', 'overrides', 'scripts'];
/** A condition of a checkout: the package has no TypeScript sources. */
const SOURCE = 'durable-rollouts-source';

const run = (command, args, cwd) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] });

/** Links to files of the checkout lead nowhere from a registry's page, and the project has no public address. */
function readme(file) {
  const text = readFileSync(file, 'utf8');
  writeFileSync(file, text.replace(/\[([^\]]+)\]\((?!https?:|#)[^)]+\)/g, '$1'));
}

/** Returns its files, unpacked. */
function npmPackage(work) {
  run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', work], root);
  const [packed] = readdirSync(work);
  run('tar', ['-xzf', packed], work);
  const folder = path.join(work, 'package');
  const file = path.join(folder, 'package.json');
  const manifest = JSON.parse(readFileSync(file, 'utf8'));
  for (const name of NOT_PUBLISHED) delete manifest[name];
  for (const target of Object.values(manifest.exports)) delete target[SOURCE];
  writeFileSync(file, `${JSON.stringify(manifest, null, 2)}\n`);
  readme(path.join(folder, 'README.md'));
  run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', out], folder);
  return folder;
}

function wheel(work) {
  const folder = path.join(work, 'python');
  cpSync(path.join(root, 'python'), folder, { recursive: true, dereference: true });
  for (const left of ['build', 'durable_rollouts.egg-info', 'server', 'tests'])
    rmSync(path.join(folder, left), { recursive: true, force: true });
  readme(path.join(folder, 'README.md'));
  run('python3', ['-m', 'pip', 'wheel', '--quiet', '--no-deps', '--wheel-dir', out, folder], work);
}

async function inScratch(make) {
  const work = mkdtempSync(path.join(tmpdir(), 'durable-rollouts-packages-'));
  try {
    await make(work);
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}

const { values } = parseArgs({ options: { all: { type: 'boolean' } } });
const platforms = values.all ? PLATFORM_NAMES : [`${process.platform}-${process.arch}`];
rmSync(out, { recursive: true, force: true });
mkdirSync(out);
await inScratch(wheel);
await inScratch(async (work) => {
  const app = npmPackage(work);
  for (const platform of platforms)
    await inScratch((folder) => serverWheel({ app, folder, platform, out }));
});
for (const name of readdirSync(out)) {
  const kilobytes = Math.round(statSync(path.join(out, name)).size / 1000);
  console.log(`dist-packages/${name}  ${kilobytes} kB`);
}
