import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ListenerOptions {
  /** 0: any free one. */
  port: number;
  host: string;
  /** Creates the handler, which may close the listening socket and all connections for `ms`. */
  handlerFor: (closeFor: (ms: number) => void) => RequestListener;
}

export interface Listener {
  port: number;
  close: () => Promise<void>;
}

/** Longer than uvicorn's 5 s, as with VLLM_HTTP_TIMEOUT_KEEP_ALIVE=900: an idle connection is no error. */
const KEEP_ALIVE_MS = 900_000;
const RETRY_MS = 100;

/** Resolves when it listens; rejects when it cannot. */
export async function openListener({ port, host, handlerFor }: ListenerOptions): Promise<Listener> {
  const server = createServer({ keepAliveTimeout: KEEP_ALIVE_MS });
  await listen(server, { port, host });
  const address = server.address() as AddressInfo;
  let closed = false;
  let reopening: NodeJS.Timeout | undefined;

  const reopenIn = (ms: number): void => {
    clearTimeout(reopening);
    reopening = setTimeout(() => {
      if (!closed) server.listen(address.port, host);
    }, ms);
  };
  // From here on only listening again can fail: something else may hold the port for a moment.
  server.on('error', () => {
    reopenIn(RETRY_MS);
  });
  const handler = handlerFor((ms) => {
    if (!server.listening) return;
    void shut(server);
    reopenIn(ms);
  });
  server.on('request', handler);
  return {
    port: address.port,
    async close() {
      closed = true;
      clearTimeout(reopening);
      if (server.listening) await shut(server);
    },
  };
}

function listen(
  server: Server,
  { port, host }: Pick<ListenerOptions, 'port' | 'host'>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, () => {
      server.off('error', reject);
      resolve();
    });
  });
}

function shut(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => {
      resolve();
    });
    server.closeAllConnections();
  });
}
