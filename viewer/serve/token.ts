import { randomBytes } from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { createDisk } from '../../src/platform/files.js';

const OTHERS = 0o077;

/**
 * The token of all servers with this folder, made by the first: an address stays good when they start again. Who may
 * read the file may read every rollout, so another user's or an open one is refused.
 */
export async function tokenIn(folder: string): Promise<string> {
  const disk = createDisk('owner');
  await disk.makeDirectory(folder);
  const file = path.join(folder, 'viewer-token');
  await disk.putOnce(file, `${randomBytes(24).toString('base64url')}\n`);
  const { uid, mode } = await stat(file);
  const user = process.getuid?.();
  if (user !== undefined && (uid !== user || (mode & OTHERS) !== 0))
    throw new Error(
      `${file}: expected a file of this user that nobody else may read, got mode ${(mode & 0o777).toString(8)} of user ${uid}; remove it, and the next start makes another`,
    );
  const token = (await readFile(file, 'utf8')).trim();
  if (/^[\w-]{16,}$/.test(token)) return token;
  throw new Error(
    `${file}: expected a token of 16 letters or more, got ${token.length} characters; remove it, and the next start makes another`,
  );
}

/** The address that opens the page, once for a browser. */
export const addressOf = (url: string, token: string): string => `${url}/?token=${token}`;
