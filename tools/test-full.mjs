/**
 * Plays all tests that `npm test` leaves out: `npm run test:full`. The whole stack, the long ones, those with programs of
 * others that are installed, and the tests of each part on the other versions of Node.js; with `--own-node` on this one
 * alone, as where each version has a machine of its own. Plays every part, whatever failed before, and ends with a table.
 * A clean tree that has passed is noted for `npm run release`.
 */
import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = fileURLToPath(new URL('../', import.meta.url));
const OTHER_NODES = ['22', '24'].filter((major) => !process.version.startsWith(`v${major}.`));

const own = ['--tier e2e', '--tier long', '--tier interop'];
const others = process.argv.includes('--own-node')
  ? []
  : OTHER_NODES.map((major) => `--node ${major}`);

const played = [...own, ...others].map((part) => {
  console.log(`\n== ${part}`);
  const from = Date.now();
  const args = [path.join(root, 'tools', 'run-tests.mjs'), ...part.split(' ')];
  const { status } = spawnSync(process.execPath, args, { cwd: root, stdio: 'inherit' });
  return { part, minutes: (Date.now() - from) / 60_000, hasPassed: status === 0 };
});

console.log();
for (const { part, minutes, hasPassed } of played)
  console.log(`${minutes.toFixed(1).padStart(6)} min  ${hasPassed ? 'passed' : 'FAILED'}  ${part}`);
if (played.every(({ hasPassed }) => hasPassed)) noteTree();
else process.exitCode = 1;

function noteTree() {
  const git = (...args) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim();
  if (others.length < OTHER_NODES.length || git('status', '--porcelain') !== '') return;
  mkdirSync(path.join(root, '.rollouts'), { recursive: true });
  writeFileSync(
    path.join(root, '.rollouts', 'full-passed'),
    `${git('rev-parse', 'HEAD^{tree}')}\n`,
  );
}
