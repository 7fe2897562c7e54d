/**
 * Runs the tests: `node tools/run-tests.mjs [--tier unit|e2e|long|interop] [--ninth] [--node MAJOR] [part of a file name
 * …]`. Without an option, those of tier `unit`: all that need no whole stack; with parts of names alone, any file that
 * has one. `--ninth` plays one of nine parts of the tier, chosen by what the tree holds. `--node` plays what starts no
 * Temporal server, on that version of Node.js. In CI, on shared machines, a file with a failure runs a second time,
 * alone, and is named. Ends with the slowest files and `N passed, N failed, N skipped`, for any reporter.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { parseArgs } from 'node:util';
import { compileTests } from './compile-tests.mjs';
import { ensureNode } from './node-version.mjs';
import { playFiles, sourceOfEvent, testFilesOf } from './play-files.mjs';
import { groupTests, ninthOf, tierOf } from './test-groups.mjs';
import { keepTimes, readTimes, slowestOf, timesOf } from './test-times.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));
/** Of a file. Where all cells are played, one of them plays for 40 minutes. */
const TIMEOUT_MS = (process.env.POLICY_CELLS === undefined ? 20 : 60) * 60_000;
/** More files than this do not fail by accident, even where other machines take the cores. */
const FAILED_AGAIN = 8;

const {
  positionals: filters,
  values: { tier, ninth, node: major },
} = parseArgs({
  options: {
    tier: { type: 'string' },
    ninth: { type: 'boolean' },
    node: { type: 'string' },
  },
  allowPositionals: true,
});
const isOfWhole = (file) => tierOf(file) !== 'unit';
const asked = tier ?? (filters.length === 0 ? 'unit' : null);
const times = readTimes(root);
const chosen = testFilesOf(root)
  .filter((file) => major === undefined || !isOfWhole(file))
  .filter((file) => asked === null || tierOf(file) === asked)
  .filter((file) => filters.length === 0 || filters.some((part) => file.includes(part)));
const files = ninth ? ninthOf({ root, files: chosen, times }) : chosen;

if (files.length === 0) {
  console.error(
    filters.length === 0
      ? `no test files of tier ${asked} under test/ and gym/test/`
      : `no test file's name contains ${filters.join(' or ')}`,
  );
  process.exit(1);
}

// They wait more than they compute; long ones hold loads that other work would disturb, and real engines are large.
const most = { interop: 1, long: Math.min(3, availableParallelism() + 1) };
const concurrency = most[tier] ?? Math.min(8, 4 * availableParallelism());

const program =
  major === undefined
    ? process.execPath
    : await ensureNode(major, { env: process.env, say: (line) => console.log(`set-up: ${line}`) });
const compiled = await compileTests(root);
const sourceOf = sourceOfEvent({ root, compiled });
const first = await runTests({ files, concurrency });
const again = first.code !== 0 && process.env.CI ? await runAgain(first) : null;
const { code, counts } = again ?? first;
const took = timesOf(first.lines, sourceOf);
keepTimes(root, took);
console.log(`\n${slowestOf(took)}`);
console.log(`\n${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`);
rmSync(compiled, { recursive: true });
// A runner that was killed has failed, whatever it counted.
process.exitCode = code ?? 1;

/** The run with the failed files repeated alone; null if there are too many for an accident. */
async function runAgain(first) {
  const failed = [
    ...new Set(first.lines.filter((line) => line.failed).map(({ test }) => sourceOf(test))),
  ];
  if (failed.length === 0 || failed.length > FAILED_AGAIN) return null;
  console.log(`\nagain, one after the other: ${failed.join(', ')}`);
  const again = await runTests({ files: failed, concurrency: 1, isAlone: true });
  if (again.code !== 0) return null;
  console.log(`\nunstable: failed beside others, passed alone: ${failed.join(', ')}`);
  const { passed, failed: failures, skipped } = first.counts;
  return { code: 0, counts: { passed: passed + failures, failed: 0, skipped } };
}

async function runTests({ files, concurrency, isAlone = false }) {
  const scratch = mkdtempSync(path.join(tmpdir(), 'rollouts-tests-'));
  const programs = isAlone
    ? files.map((file) => path.join(compiled, file.replace(/\.ts$/, '.js')))
    : groupTests({ compiled, files, times });
  const server = files.some(isOfWhole) ? await startServer({ files, scratch }) : null;
  const env = {
    TEST_SCRATCH: scratch,
    ...(server !== null && { TEST_TEMPORAL_ADDRESS: server.address }),
  };
  const job = { files: programs, concurrency, timeout: TIMEOUT_MS };
  try {
    const { code, lines } = await playFiles({ root, program, env, job });
    return { code, lines, counts: countsOf(lines) };
  } finally {
    await server?.stop();
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** A Temporal server for all files that do not kill theirs, with a namespace each (lab/bed/server.ts). */
async function startServer({ files, scratch }) {
  const load = (name) => import(path.join(compiled, 'dev', name));
  const { chooseServerPorts, startDevServer } = await load('dev-server.js');
  const { findTemporalCli } = await import(path.join(compiled, 'tools/temporal-cli/find.js'));
  const cli = await findTemporalCli({ env: process.env, projectRoot: root, say: console.log });
  return await startDevServer({
    cliPath: cli.path,
    ports: await chooseServerPorts({ server: 0, ui: 0 }),
    dbFile: null,
    headless: true,
    namespaces: files.filter(isOfWhole).map((file) => path.basename(file, '.test.ts')),
    logFile: path.join(scratch, 'temporal.log'),
  });
}

/** A cancelled test has not passed. */
function countsOf(lines) {
  const count = (name) => lines.find(({ what }) => what === name)?.count ?? 0;
  return {
    passed: count('pass'),
    failed: count('fail') + count('cancelled'),
    skipped: count('skipped') + count('todo'),
  };
}
