import { existsSync } from 'node:fs';
import { chmod, mkdir, realpath, rm, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { shellWord } from '../src/platform/command.js';
import { PROJECT_ROOT } from '../src/platform/project-root.js';
import type { TemporalCli } from '../tools/temporal-cli/find.js';

/**
 * Puts the programs of a stack into `bin` of its folder, for other terminals: scripts find them there, too, unlike
 * aliases. Returns the folder; null: all are on this machine's path.
 */
export async function putPrograms(
  folder: string,
  { cli, env }: { cli: TemporalCli; env: NodeJS.ProcessEnv },
): Promise<string | null> {
  const bin = path.join(folder, 'bin');
  // In a shell with this stack's lines, the CLI of the path is the link of the earlier start.
  const temporal = await realpath(cli.path);
  // Those of an earlier start may be elsewhere now.
  await rm(bin, { recursive: true, force: true });
  await mkdir(bin, { recursive: true, mode: 0o700 });
  await symlink(temporal, path.join(bin, 'temporal'));
  const main = path.join(PROJECT_ROOT, 'dist', 'src', 'cli', 'main.js');
  const file = path.join(bin, 'temporal-rollout');
  const words = [process.execPath, main].map(shellWord).join(' ');
  await writeFile(file, `#!/bin/sh\nexec ${words} "$@"\n`);
  await chmod(file, 0o755);
  const areThere =
    cli.source === 'PATH' && ['temporal', 'temporal-rollout'].every(onPathOf(env, bin));
  return areThere ? null : bin;
}

/** Whether other terminals have it on their path, too: these folders, and those of npm, are on this one's alone. */
const onPathOf =
  (env: NodeJS.ProcessEnv, bin: string) =>
  (program: string): boolean =>
    (env['PATH'] ?? '')
      .split(path.delimiter)
      .filter((folder) => folder !== '' && !folder.includes('node_modules'))
      .filter((folder) => ![bin, path.join(env['VIRTUAL_ENV'] ?? '', 'bin')].includes(folder))
      .some((folder) => existsSync(path.join(folder, program)));
