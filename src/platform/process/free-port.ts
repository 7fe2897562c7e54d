import { createServer } from 'node:net';

const TRIES = 200;

/**
 * The first port from `from` on with no listener on 127.0.0.1; 0: any. Ports in `taken` are assigned already. Nothing
 * reserves the port, so a caller that loses the race starts over.
 */
export async function firstFreePort(from: number, taken: readonly number[] = []): Promise<number> {
  if (from === 0) return await anyFreePort();
  for (let port = from; port < from + TRIES && port < 65_536; port++) {
    if (!taken.includes(port) && (await listenOn(port)) !== null) return port;
  }
  throw new Error(`no free port on 127.0.0.1 from ${from} to ${from + TRIES - 1}`);
}

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
