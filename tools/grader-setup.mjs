import { execFile } from 'node:child_process';
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { runStep } from './run-step.mjs';
import { withLock } from './set-up-lock.mjs';

const run = promisify(execFile);

/**
 * The Python packages of the maths grader, in a virtual environment in the user's cache: made once for each
 * requirements.txt. Built in place, since it cannot be moved; it counts when its stamp is there. Nothing but maths needs
 * it: where it cannot be made, this says so and goes on.
 */
export async function ensureGrader({ install, variable, env, say }) {
  const given = env[variable];
  if (given !== undefined && given !== '') {
    if (!(await canGrade(given))) {
      say(`${variable} is ${given}, which has no math-verify: maths will not be graded`);
    }
    return;
  }
  if (existsSync(install.stamp)) return;
  try {
    await withLock({ file: `${install.folder}.lock`, say }, async () => {
      if (!existsSync(install.stamp)) await make({ install, env, say });
    });
  } catch (error) {
    say(`no maths grader, everything else works; the next set-up tries again. ${error.message}`);
  }
}

async function make({ install, env, say }) {
  const startedAt = Date.now();
  const python = await findPython();
  const hasUv = await succeeds('uv', ['--version']);
  // A folder without a stamp is what a set-up left that did not come to its end.
  rmSync(install.folder, { recursive: true, force: true });
  const steps = [...(hasUv ? [withUv] : []), withPip].map((way) => way(python, install));
  await anyOf(steps, { install, env, say });
  if (!(await canGrade(install.python))) throw new Error(`${install.python} has no math-verify`);
  writeFileSync(install.stamp, `${new Date().toISOString()}\n`);
  say(`maths grader installed in ${Math.round((Date.now() - startedAt) / 1000)} s`);
}

const withUv = (python, { folder, python: own, requirements }) => ({
  what: `installing the maths grader (math-verify) with uv into ${folder}, some seconds`,
  commands: [
    ['uv', ['venv', '--quiet', '--python', python, folder]],
    ['uv', ['pip', 'install', '--quiet', '--python', own, '--require-hashes', '-r', requirements]],
  ],
});

const PIP_INSTALL = ['-m', 'pip', 'install', '--quiet', '--retries', '2', '--timeout', '30'];

const withPip = (python, { folder, python: own, requirements }) => ({
  what: `installing the maths grader (math-verify) with pip into ${folder}, half a minute`,
  commands: [
    [python, ['-m', 'venv', folder]],
    [own, [...PIP_INSTALL, '--require-hashes', '-r', requirements]],
  ],
});

/** The first way that works; the error of the last. */
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
    if (others.length === 0) throw error;
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

const canGrade = (python) =>
  succeeds(python, ['-c', 'import math_verify, latex2sympy2_extended, sympy']);

async function succeeds(command, args) {
  try {
    await run(command, args, { timeout: 60_000 });
    return true;
  } catch {
    return false;
  }
}
