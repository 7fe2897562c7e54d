import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import path from 'node:path';

/** The registries' own rules, and what packaging tools know to go wrong. Not in package.json: nothing else needs them. */
const OF_PYPI = ['twine==7.0.0', 'check-wheel-contents==0.6.3', 'auditwheel==6.8.2'];
const OF_NPM = { publint: 'publint@0.3.25', attw: '@arethetypeswrong/cli@0.18.5' };

/** Throws with the output of a tool that finds something. `scratch` is a folder for these tools. */
export function checkPackages({ npm, client, server }, scratch) {
  const bin = path.join(scratch, 'tools', 'bin');
  const run = (command, ...args) => {
    console.log(
      `        ${path.basename(command)} ${args.filter((one) => !one.startsWith('/')).join(' ')}`,
    );
    try {
      return execFileSync(command, args, { encoding: 'utf8', stdio: 'pipe' });
    } catch (error) {
      throw new Error(`${[command, ...args].join(' ')} failed:\n${error.stdout}${error.stderr}`);
    }
  };
  run('python3', '-m', 'venv', path.join(scratch, 'tools'));
  run(path.join(bin, 'python'), '-m', 'pip', 'install', '--quiet', ...OF_PYPI);
  run(path.join(bin, 'twine'), 'check', '--strict', client, ...server);
  const contents = (...args) => run(path.join(bin, 'check-wheel-contents'), ...args);
  contents('--toplevel', 'durable_rollouts,rollout_environment', client);
  // Packages of npm share files (W002), and examples are no modules of the wheel (W004).
  contents('--toplevel', 'durable_rollouts_server', '--ignore', 'W002,W004', ...server);
  for (const wheel of server.filter((name) => name.includes(`manylinux`)))
    assert.match(
      run(path.join(bin, 'auditwheel'), 'show', wheel),
      /following platform tag:\s+"manylinux_/,
    );
  run('npx', '--yes', OF_NPM.publint, '--strict', npm);
  run('npx', '--yes', OF_NPM.attw, '--profile', 'esm-only', npm);
}
