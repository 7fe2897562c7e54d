/**
 * Prepares a fresh clone, and finishes quickly if nothing is missing: packages as in package-lock.json, `dist` from the
 * sources. With `--start` it fetches the Temporal CLI while it builds. With `--test` it has the CLI in any case, the maths
 * grader, and the packages of the example trainer and of the example that learns. Plain JavaScript without
 * dependencies, because it runs before they exist.
 */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import path from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { PROGRAMS, compile, programFiles } from './compile.mjs';
import { fingerprint, readStamp } from './fingerprint.mjs';
import { runStep } from './run-step.mjs';
import { withLock } from './set-up-lock.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
const at = (...parts) => path.join(root, ...parts);
const say = (line) => console.log(`set-up: ${line}`);

const PACKAGES_STAMP = at('node_modules', '.setup-stamp');
const BUILD_STAMP = at('dist', '.setup-stamp');
const SCRATCH = at('.rollouts');
const TSC = path.join('node_modules', 'typescript', 'bin', 'tsc');

async function main(options) {
  checkNode();
  if (!packagesAreThere() || !buildIsThere()) {
    await withLock({ file: path.join(SCRATCH, 'setup.lock'), say }, async () => {
      // Again: the previous holder of the lock may have done it.
      if (!packagesAreThere()) await installPackages();
      if (!buildIsThere()) await build(options);
    });
  }
  if (!options.includes('--test')) return;
  await ensurePackages('src/environments/math/grader-install.js', 'graderInstall');
  await ensureTemporalCli();
  await ensurePackages('dev/trainer-example.js', 'trainerInstall');
  await ensurePackages('lab/demos/learning/example.js', 'learningInstall');
}

function checkNode() {
  const [major, minor] = process.versions.node.split('.').map(Number);
  if (major > 20 || (major === 20 && minor >= 19)) return;
  throw new Error(
    `Node.js 20.19 or later is needed, this is ${process.versions.node} (${process.execPath}).\n` +
      'Install a newer one (https://nodejs.org, or `nvm install 20`) and make sure that `node` on PATH is it.',
  );
}

const lockHash = () => fingerprint(root, ['package-lock.json']);

function packagesAreThere() {
  const stamp = readStamp(PACKAGES_STAMP);
  if (stamp !== null) return stamp === lockHash() || isInstalledByHand();
  return isInstalledByHand();
}

/** npm's own record of node_modules names the same versions as the lock file, so `npm ci` would change nothing. */
function isInstalledByHand() {
  const record = at('node_modules', '.package-lock.json');
  if (!existsSync(record)) return false;
  const wanted = JSON.parse(readFileSync(at('package-lock.json'), 'utf8')).packages;
  const there = JSON.parse(readFileSync(record, 'utf8')).packages;
  const same = Object.entries(wanted).every(([name, { version, optional, devOptional, peer }]) => {
    const isLeftOut = there[name] === undefined && (optional || devOptional || peer);
    return name === '' || isLeftOut || there[name]?.version === version;
  });
  if (!same || Object.keys(there).some((name) => wanted[name] === undefined)) return false;
  writeFileSync(PACKAGES_STAMP, lockHash());
  return true;
}

async function installPackages() {
  await runStep({
    what: 'installing packages with `npm ci`, about a minute',
    ...npm(['ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error']),
    cwd: root,
    env: process.env,
    advice:
      'Check the network and the npm registry (`npm ping`), then try again. `npm ci` shows it in full.',
    say,
  });
  writeFileSync(PACKAGES_STAMP, lockHash());
}

/** The npm that runs this script, if there is one; else the one on PATH. */
function npm(args) {
  const cli = process.env.npm_execpath;
  return cli !== undefined && path.basename(cli) === 'npm-cli.js'
    ? { command: process.execPath, args: [cli, ...args] }
    : { command: 'npm', args };
}

function sourceHash() {
  const configs = readdirSync(root)
    .filter((name) => /^tsconfig.*\.json$/.test(name))
    .sort();
  const files = [
    ...configs,
    'package-lock.json',
    'tools/compile.mjs',
    ...programFiles(root, PROGRAMS),
  ];
  return fingerprint(root, files);
}

const buildIsThere = () => readStamp(BUILD_STAMP) === sourceHash();

/**
 * Built in a separate folder, which becomes `dist` when it is complete: a crash leaves no half build and no stale
 * files.
 */
async function build(options) {
  const hash = sourceHash();
  const folder = path.join(SCRATCH, 'build');
  const old = path.join(SCRATCH, 'build-before');
  for (const left of [folder, old]) rmSync(left, { recursive: true, force: true });
  mkdirSync(SCRATCH, { recursive: true, mode: 0o700 });
  const step = { command: process.execPath, cwd: root, env: process.env, say };
  say('compiling …');
  await compile({ root, files: programFiles(root, PROGRAMS), outdir: folder });
  const ended = await Promise.allSettled([
    // Where it fails, what needs it says so.
    options.includes('--start') && temporalCli(folder).catch(() => undefined),
    runStep({
      ...step,
      what: 'bundling the workflows, a few seconds',
      args: [path.join(folder, 'src', 'workers', 'build-bundle.js')],
      advice:
        'Workflow code may import only @temporalio/workflow and its own files: see what was added under src/workflows.',
    }),
    runStep({
      ...step,
      what: "bundling the viewer's page",
      args: [at('tools', 'build-page.mjs'), path.join(folder, 'viewer')],
      advice: '`npx tsc -p viewer/page` shows what is wrong with its sources.',
    }),
    runStep({
      ...step,
      what: 'types of environments',
      args: [at(TSC), '-p', 'tsconfig.types.json', '--outDir', folder],
      advice: '`npm run typecheck` shows what is wrong in the sources.',
    }),
  ]);
  const failed = ended.find(({ status }) => status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  if (!existsSync(path.join(folder, 'src', 'workflow-bundle.js'))) {
    throw new Error(
      'build-bundle.js wrote no workflow-bundle.js beside its own folder; src/workers/build-bundle.ts has to.',
    );
  }
  chmodSync(path.join(folder, 'src', 'cli', 'main.js'), 0o755);
  writeFileSync(path.join(folder, '.setup-stamp'), hash);
  if (existsSync(at('dist'))) renameSync(at('dist'), old);
  renameSync(folder, at('dist'));
  rmSync(old, { recursive: true, force: true });
}

/** Some tests run a real Temporal server; wait for the CLI here instead of in the first of them. */
async function ensureTemporalCli() {
  const { path: file, version, source } = await temporalCli(at('dist'));
  say(`Temporal CLI ${version} (${source}): ${file}`);
}

async function temporalCli(built) {
  const file = path.join(built, 'tools', 'temporal-cli', 'find.js');
  const { findTemporalCli } = await import(pathToFileURL(file).href);
  return await findTemporalCli({ env: process.env, projectRoot: root, say });
}

/** Tests use the Python packages of the grader, of `durable_rollouts` and of the example that learns. */
async function ensurePackages(file, name) {
  const built = (module) => import(pathToFileURL(at('dist', module)).href);
  const { [name]: installOf } = await built(file);
  const { ensurePython } = await built('src/platform/python-setup.js');
  const install = installOf(process.env);
  try {
    await ensurePython(install, { env: process.env, say });
  } catch (error) {
    say(`no ${install.for_what}; the next set-up tries again. ${error.message}`);
  }
}

try {
  await main(process.argv.slice(2));
} catch (error) {
  console.error(`set-up failed: ${error.message}`);
  process.exitCode = error.exitCode ?? 1;
}
