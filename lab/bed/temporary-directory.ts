import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';

export interface TemporaryDirectory {
  path: string;
  /** Keeps it, and says where, when `KEEP_TEST_FILES` is set. */
  remove: () => Promise<void>;
}

/** `on_disk`: on that of the project. The folder for temporary files may be in memory. */
export async function makeTemporaryDirectory(
  name: string,
  { on_disk = false }: { on_disk?: boolean } = {},
): Promise<TemporaryDirectory> {
  const above = on_disk ? path.join(PROJECT_ROOT, '.rollouts') : tmpdir();
  await mkdir(above, { recursive: true });
  const directory = await mkdtemp(path.join(above, `durable-rollouts-${name}-`));
  return {
    path: directory,
    remove: async () => {
      if ((process.env['KEEP_TEST_FILES'] ?? '') !== '') console.log(`kept: ${directory}`);
      else await rm(directory, { recursive: true, force: true, maxRetries: 3 });
    },
  };
}
