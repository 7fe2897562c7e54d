/** Test files, and how they are played: what run-tests.mjs and mutants.mjs share. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { filesBelow } from './fingerprint.mjs';

/** All test files, by their paths below the root. */
export const testFilesOf = (root) =>
  ['test', 'gym/test']
    .flatMap((folder) => filesBelow(path.join(root, folder)).map((file) => `${folder}/${file}`))
    .filter((file) => file.endsWith('.test.ts'));

/** Events name the source or the compiled file: not every version follows source maps. */
export const sourceOfEvent =
  ({ root, compiled }) =>
  (file) =>
    path.relative(file.startsWith(compiled) ? compiled : root, file).replace(/\.js$/, '.ts');

/**
 * Plays a job of run-files.mjs in a process of its own, with further variables. Returns its exit status, null for one
 * that was killed, and the lines of its report.
 */
export async function playFiles({ root, program = process.execPath, env = {}, job }) {
  const scratch = mkdtempSync(path.join(tmpdir(), 'rollouts-job-'));
  const report = path.join(scratch, 'report.jsonl');
  const file = path.join(scratch, 'job.json');
  writeFileSync(file, JSON.stringify({ report, ...job }));
  const args = ['--enable-source-maps', path.join(root, 'tools', 'run-files.mjs'), file];
  try {
    const code = await new Promise((resolve, reject) => {
      const child = spawn(program, args, {
        cwd: root,
        env: { ...process.env, PATH: withPython(process.env), ...env },
        stdio: ['ignore', 'inherit', 'inherit'],
      });
      child.once('error', reject);
      child.once('close', (exit) => resolve(exit));
    });
    const lines = readFileSync(report, 'utf8')
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line));
    return { code, lines };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

/** The interpreter itself comes first: a version manager's `python3` is slower to find it than it is to start. */
function withPython({ PATH = '' }) {
  const asked = spawnSync('python3', ['-c', 'import sys; print(sys.executable)'], {
    encoding: 'utf8',
  });
  const found = asked.status === 0 ? asked.stdout.trim() : '';
  return found === '' ? PATH : `${path.dirname(found)}${path.delimiter}${PATH}`;
}
