import { execFile } from 'node:child_process';
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { runStep } from './run-step.mjs';
import { withLock } from './set-up-lock.mjs';

const run = promisify(execFile);

/**
 * Python packages in a virtual environment in the user's cache, one for each requirements.txt. It is built in place,
 * since it cannot be moved, and counts when its stamp exists. Only `install.for_what` needs it, so a failure is
 * reported and ignored, except Ctrl-C. `variable` may name another Python that has the packages.
 */
export async function ensurePython({ install, variable, env, say }) {
  const given = variable === undefined ? undefined : env[variable];
  if (given !== undefined && given !== '') {
    if (!(await hasModules(given, install))) {
      say(
        `${variable} is ${given}, which cannot import ${listed(install)}: no ${install.for_what}`,
      );
    }
    return;
  }
  if (existsSync(install.stamp)) return;
  try {
    await withLock({ file: `${install.folder}.lock`, say }, async () => {
      if (!existsSync(install.stamp)) await make({ install, env, say });
    });
  } catch (error) {
    if (error.exitCode !== undefined) throw error;
    say(
      `no ${install.for_what}, everything else works; the next set-up tries again. ${error.message}`,
    );
  }
}

async function make({ install, env, say }) {
  const startedAt = Date.now();
  const python = await findPython();
  const hasUv = await succeeds('uv', ['--version']);
  // A folder without a stamp comes from an interrupted set-up.
  rmSync(install.folder, { recursive: true, force: true });
  const steps = [...(hasUv ? [withUv] : []), withPip].map((way) => way(python, install));
  await anyOf(steps, { install, env, say });
  if (!(await hasModules(install.python, install))) {
    throw new Error(`${install.python} cannot import ${listed(install)}`);
  }
  writeFileSync(install.stamp, `${new Date().toISOString()}\n`);
  say(`${install.for_what} installed in ${Math.round((Date.now() - startedAt) / 1000)} s`);
}

const withUv = (python, { folder, python: own, requirements, for_what }) => ({
  what: `installing the ${for_what} with uv into ${folder}, some seconds`,
  commands: [
    ['uv', ['venv', '--quiet', '--python', python, folder]],
    ['uv', ['pip', 'install', '--quiet', '--python', own, ...required(requirements)]],
  ],
});

const PIP_INSTALL = ['-m', 'pip', 'install', '--quiet', '--retries', '2', '--timeout', '30'];

const withPip = (python, { folder, python: own, requirements, for_what }) => ({
  what: `installing the ${for_what} with pip into ${folder}, half a minute`,
  commands: [
    [python, ['-m', 'venv', folder]],
    [own, [...PIP_INSTALL, ...required(requirements)]],
  ],
});

/** If one package has a hash, all must have one. pip checks this by itself, uv does not. */
const required = (requirements) => [
  ...(readFileSync(requirements, 'utf8').includes('--hash=') ? ['--require-hashes'] : []),
  '-r',
  requirements,
];

/** The first way that works; throws the last error. */
async function anyOf([way, ...others], { install, env, say }) {
  try {
    for (const [index, [command, args]] of way.commands.entries()) {
      await runStep({
        what: index === 0 ? way.what : 'its packages',
        command,
        args,
        cwd: path.dirname(install.requirements),
        env,
        advice:
          'Check the network and that Python can make virtual environments (Debian: python3-venv).',
        say: index === 0 ? say : () => undefined,
      });
    }
  } catch (error) {
    rmSync(install.folder, { recursive: true, force: true });
    if (others.length === 0 || error.exitCode !== undefined) throw error;
    await anyOf(others, { install, env, say });
  }
}

const NAMES = ['python3', 'python3.13', 'python3.12', 'python3.11', 'python3.10', 'python'];

async function findPython() {
  for (const name of NAMES) {
    if (await succeeds(name, ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']))
      return name;
  }
  throw new Error('It needs Python 3.10 or later: no such python3 on PATH.');
}

const listed = ({ modules }) => modules.join(', ');

const hasModules = (python, install) => succeeds(python, ['-c', `import ${listed(install)}`]);

async function succeeds(command, args) {
  try {
    await run(command, args, { timeout: 60_000 });
    return true;
  } catch {
    return false;
  }
}
