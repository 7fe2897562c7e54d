import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';

/** A folder that is gone after the test. */
export async function temporaryFolder(t: TestContext): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollouts-local-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

/** An executable whose content is JavaScript (CommonJS), independent of PATH. */
export async function writeProgram(file: string, source: string): Promise<string> {
  await mkdir(path.dirname(file), { recursive: true });
  await writeFile(file, `#!${process.execPath}\n${source}\n`);
  await chmod(file, 0o755);
  return file;
}

export const temporalOf = (version: string): string =>
  `console.log('temporal version ${version} (Server 1.31.2, UI 2.50.1)');`;
