import { existsSync } from 'node:fs';
import path from 'node:path';
import { pathToFileURL, fileURLToPath } from 'node:url';
import { runStep } from './run-step.mjs';
import { withLock } from './set-up-lock.mjs';

const root = fileURLToPath(new URL('../', import.meta.url));

/**
 * The program of another major version of Node.js, from npm's packages `node-<platform>-<arch>`, kept in the user's
 * cache. Returns its path.
 */
export async function ensureNode(major, { env, say }) {
  const { userCacheFolder } = await import(
    pathToFileURL(path.join(root, 'dist', 'src', 'platform', 'user-cache.js')).href
  );
  const name = `node-${process.platform}-${process.arch}`;
  const folder = path.join(userCacheFolder(env), 'durable-rollouts', 'node', String(major));
  const program = path.join(folder, 'node_modules', name, 'bin', 'node');
  if (existsSync(program)) return program;
  await withLock({ file: `${folder}.lock`, say }, async () => {
    if (existsSync(program)) return;
    await runStep({
      what: `installing Node.js ${major} with npm into ${folder}`,
      command: 'npm',
      args: [
        ...['install', '--prefix', folder, '--no-save', '--no-audit', '--no-fund'],
        `${name}@${major}`,
      ],
      cwd: root,
      env,
      advice: 'Check the network and the npm registry (`npm ping`), then try again.',
      say,
    });
  });
  return program;
}
