import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

/** A part that takes longer has hung. */
const STEP_MS = 4 * 60_000;
/** What a newcomer's machine may lack. */
const OURS =
  /^(node|nodejs|npm|npx|corepack|go|temporal|temporal-rollout|pip[\d.]*|python[\d.]*|uv)$/;
const KEPT = /^(LANG|CI|.*_proxy|SSL_.*|NODE_EXTRA_CA_CERTS|PIP_(CERT|INDEX_URL|FIND_LINKS))$/i;

/**
 * Calls `use` with a machine that has nothing of this project: an empty folder, an empty home, no caches, and of Node.js,
 * npm, Python, Go and the Temporal CLI only `programs`, by name. `step` runs a command line and prints its seconds;
 * `start` has one run until the end.
 */
export async function onNewMachine({ what, programs }, use) {
  const scratch = mkdtempSync(path.join(tmpdir(), 'durable-rollouts-newcomer-'));
  const [home, folder, bin] = ['home', 'empty', 'bin'].map((name) => path.join(scratch, name));
  for (const one of [home, folder, bin]) mkdirSync(one);
  linkPrograms(bin, programs);
  const kept = Object.entries(process.env).filter(([name]) => KEPT.test(name));
  const place = { cwd: folder, env: { ...Object.fromEntries(kept), HOME: home, PATH: bin } };
  const began = performance.now();
  const step = (part, line, there) => timed({ what, part }, line, placeOf(place, there));
  const running = [];
  const start = (line, there) => running.push(startProgram(line, placeOf(place, there)));
  console.log(`\n${what}`);
  try {
    await use({ folder, home, scratch, step, start });
    console.log(`${secondsSince(began)} s  in all`);
  } finally {
    await Promise.all(running.map((end) => end()));
    rmSync(scratch, { recursive: true, force: true });
  }
}

const placeOf = ({ cwd, env }, there = {}) => ({
  cwd: path.join(cwd, there.folder ?? ''),
  env: { ...env, ...there.env },
});

async function timed({ what, part }, [command, ...args], place) {
  const began = performance.now();
  const options = { ...place, maxBuffer: 1 << 26, timeout: STEP_MS };
  const { stdout } = await promisify(execFile)(command, args, options).catch((error) => {
    throw new Error(`${what}: ${part}: ${error.message}\n${error.stdout}`);
  });
  console.log(`${secondsSince(began)} s  ${part}`);
  return stdout;
}

const secondsSince = (began) => ((performance.now() - began) / 1000).toFixed(1).padStart(7);

/** Returns what ends it. */
function startProgram([command, ...args], place) {
  const child = spawn(command, args, { ...place, stdio: 'ignore' });
  const ended = once(child, 'exit');
  return async () => {
    child.kill('SIGINT');
    await ended;
  };
}

/** All of this machine's programs but those that it may lack, and `programs`. */
function linkPrograms(bin, programs) {
  const folders = (process.env['PATH'] ?? '').split(path.delimiter).filter(existsSync);
  for (const folder of folders)
    for (const name of readdirSync(folder))
      if (
        !OURS.test(name) &&
        !existsSync(path.join(bin, name)) &&
        isProgram(path.join(folder, name))
      )
        symlinkSync(path.join(folder, name), path.join(bin, name));
  for (const [name, file] of Object.entries(programs)) symlinkSync(file, path.join(bin, name));
}

const isProgram = (file) => {
  const found = statSync(file, { throwIfNoEntry: false });
  return found !== undefined && found.isFile() && (found.mode & 0o111) !== 0;
};
