import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';

export interface TemporaryDirectory {
  path: string;
  /** Keeps it, and says where, when `KEEP_TEST_FILES` is set. */
  remove: () => Promise<void>;
}

export async function makeTemporaryDirectory(name: string): Promise<TemporaryDirectory> {
  const directory = await mkdtemp(path.join(tmpdir(), `durable-rollouts-${name}-`));
  return {
    path: directory,
    remove: async () => {
      if ((process.env['KEEP_TEST_FILES'] ?? '') !== '') console.log(`kept: ${directory}`);
      else await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
