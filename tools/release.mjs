/**
 * Makes a release of what is checked out: `npm run release -- 0.2.0` (CONTRIBUTING.md). It checks, sets the version,
 * dates the changelog's section, records what later releases must read, builds the packages, commits and tags. Nothing
 * leaves this machine. With `--dry-run` it checks, and says what it would do.
 */
import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';

const root = fileURLToPath(new URL('../', import.meta.url));
const say = (line) => console.log(`release: ${line}`);

/** Files with the tree that has passed last, and what it has passed. */
const PASSED = { '.ci/run': '.rollouts/ci-passed', 'npm run test:full': '.rollouts/full-passed' };

/** Every place of the version: what precedes it, and how often it is there at least. */
const PLACES = [
  ['package.json', /^( {2}"version": ")[^"]+/gm, 1],
  ['package-lock.json', /("name": "durable-rollouts",\n +"version": ")[^"]+/g, 2],
  ['python/durable_rollouts/__init__.py', /^(__version__ = ")[^"]+/gm, 1],
];

const UNRELEASED = '## Unreleased\n';

const read = (file) => readFileSync(path.join(root, file), 'utf8');
const write = (file, text) => writeFileSync(path.join(root, file), text);
const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trimEnd();
const run = (...args) => execFileSync(process.execPath, args, { cwd: root, stdio: 'inherit' });

const numbersOf = (version) => version.split('.').map(Number);

function isBefore(version, other) {
  const [ours, theirs] = [numbersOf(version), numbersOf(other)];
  const at = ours.findIndex((number, i) => number !== theirs[i]);
  return at !== -1 && ours[at] < theirs[at];
}

/** Why this cannot be released; each line says what to do. */
function problems(version) {
  const found = [];
  if (!/^\d+\.\d+\.\d+$/.test(version))
    return [`expected a version such as 0.2.0, got ${JSON.stringify(version)}`];
  const before = JSON.parse(read('package.json')).version;
  if (isBefore(version, before)) found.push(`expected a version from ${before} on, got ${version}`);
  if (git('tag', '--list', `v${version}`) !== '')
    found.push(`tag v${version} is there: choose another version`);
  const changed = git('status', '--porcelain');
  if (changed !== '') found.push(`expected a clean tree, got\n${changed}\ncommit it, or stash it`);
  const tree = git('rev-parse', 'HEAD^{tree}');
  for (const [command, file] of Object.entries(PASSED)) {
    const passed = existsSync(path.join(root, file)) ? read(file).trim() : 'no tree';
    if (passed !== tree)
      found.push(`${command} has passed ${passed}, and this tree is ${tree}: run ${command} first`);
  }
  if (!/^## Unreleased\n\n(?!## )\S/m.test(read('CHANGELOG.md')))
    found.push('CHANGELOG.md has no section "## Unreleased" with lines: say what has changed');
  for (const [file, pattern, times] of PLACES) {
    const count = read(file).match(pattern)?.length ?? 0;
    if (count < times)
      found.push(
        `${file}: expected the version at least ${times} times, found it ${count} times: see PLACES in tools/release.mjs`,
      );
  }
  return found;
}

const STEPS = [
  [
    'set the version in package.json, package-lock.json and Python',
    (version) => {
      for (const [file, pattern] of PLACES)
        write(file, read(file).replace(pattern, `$1${version}`));
    },
  ],
  [
    'date the section of CHANGELOG.md, and begin another one',
    (version) => {
      const dated = `## ${version}, ${new Date().toISOString().slice(0, 10)}\n`;
      write('CHANGELOG.md', read('CHANGELOG.md').replace(UNRELEASED, `${UNRELEASED}\n${dated}`));
    },
  ],
  ['build', () => run('tools/setup.mjs', '--test')],
  [
    'record a store and keep the histories in test/releases, for later releases to read',
    (version) => {
      run('--import', 'tsx', 'test/releases/record.ts', version);
      const to = path.join(root, 'test', 'releases', version, 'histories');
      cpSync(path.join(root, 'test', 'histories'), to, { recursive: true });
    },
  ],
  [
    'build the packages of all platforms in dist-packages',
    () => run('tools/build-packages.mjs', '--all'),
  ],
  [
    'commit and tag',
    (version) => {
      git('add', '--all');
      git('commit', '--quiet', '--message', `Release ${version}`);
      git('tag', '--annotate', `v${version}`, '--message', `Durable Rollouts ${version}`);
    },
  ],
];

function main() {
  const { values, positionals } = parseArgs({
    options: { 'dry-run': { type: 'boolean', default: false } },
    allowPositionals: true,
  });
  const [version = ''] = positionals;
  const found = problems(version);
  for (const problem of found) say(problem);
  if (found.length > 0) return 1;
  for (const [what, take] of STEPS) {
    say(values['dry-run'] ? `would ${what}` : what);
    if (values['dry-run']) continue;
    try {
      take(version);
    } catch (error) {
      say(
        `${error.message}\nNothing was tagged. To begin again: git restore . && git clean -d --force test/releases`,
      );
      return 1;
    }
  }
  if (!values['dry-run'])
    say(
      `v${version} is tagged here. To publish it: git push --follow-tags, then what dist-packages has`,
    );
  return 0;
}

process.exitCode = main();
