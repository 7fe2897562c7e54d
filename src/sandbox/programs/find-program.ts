import { access, constants, stat } from 'node:fs/promises';
import path from 'node:path';

/** Where a command's program is, as `execvp` finds it; null: nowhere. A relative one with a slash is the folder's. */
export async function findProgram(
  program: string,
  { PATH, folder }: { PATH: string; folder: string },
): Promise<string | null> {
  const candidates = program.includes('/')
    ? [path.resolve(folder, program)]
    : PATH.split(path.delimiter).map((part) => path.resolve(folder, part, program));
  for (const file of candidates) if (await isProgram(file)) return file;
  return null;
}

async function isProgram(file: string): Promise<boolean> {
  try {
    await access(file, constants.X_OK);
    return (await stat(file)).isFile();
  } catch {
    return false;
  }
}
