import { mkdir } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir, userInfo } from 'node:os';
import path from 'node:path';
import { claimFile } from '../src/platform/claim.js';

const TRIES = 200;

/**
 * The first port from `from` on with no listener on 127.0.0.1 that no living process of this user has taken; 0: any. It
 * stays taken for as long as this process lives, so that programs that start at once get ports of their own before they
 * listen there. `folder`: of the claims.
 */
export async function takePort(from: number, folder = claims()): Promise<number> {
  return await firstPort(from, async (port) => {
    if (!(await isFree(port))) return false;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const { release } = await claimFile(path.join(folder, String(port)));
    if (release === null) return false;
    if (await isFree(port)) return true;
    await release();
    return false;
  });
}

const claims = (): string => path.join(tmpdir(), `durable-rollouts-ports-${userInfo().uid}`);

/**
 * The first port from `from` on with no listener on 127.0.0.1; 0: any. Nothing reserves the port, so a caller that loses
 * the race starts over.
 */
export const firstFreePort = (from: number): Promise<number> => firstPort(from, isFree);

async function firstPort(from: number, fits: (port: number) => Promise<boolean>): Promise<number> {
  if (from === 0) return await anyFreePort();
  for (let port = from; port < from + TRIES && port < 65_536; port++)
    if (await fits(port)) return port;
  throw new Error(`no free port on 127.0.0.1 from ${from} to ${from + TRIES - 1}`);
}

const isFree = async (port: number): Promise<boolean> => (await listenOn(port)) !== null;

async function anyFreePort(): Promise<number> {
  const port = await listenOn(0);
  if (port === null) throw new Error('no free port on 127.0.0.1');
  return port;
}

/** Listens for a moment. Returns the port, or null if it is in use. */
function listenOn(port: number): Promise<number | null> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EADDRINUSE' || error.code === 'EACCES') resolve(null);
      else reject(error);
    });
    server.listen({ port, host: '127.0.0.1' }, () => {
      const address = server.address();
      server.close(() => {
        resolve(typeof address === 'object' && address !== null ? address.port : null);
      });
    });
  });
}
