import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/** Between a client and a TCP server: passes everything on, drops answers, or drops everything. */
export interface CutProxy {
  port: number;
  /**
   * Cuts each connection at the next bytes from the server after a request: the request was executed, but its answer is
   * lost.
   */
  cutAnswers: (count: number, options?: { then_close: boolean }) => void;
  /** Cuts all connections, and refuses new ones until `open`. */
  close: () => void;
  open: () => void;
  /** Cuts all connections; new ones lead to another server. */
  lead: (port: number) => void;
  /** How many answers were cut. */
  cuts: () => number;
  end: () => Promise<void>;
}

export async function startCutProxy({
  port,
  isCommit,
}: {
  /** The server's. */
  port: number;
  /** Whether the client's bytes are a request whose answer is to be cut. */
  isCommit: (bytes: Buffer) => boolean;
}): Promise<CutProxy> {
  const sockets = new Set<Socket>();
  let isOpen = true;
  let left = 0;
  let cuts = 0;
  let closesThen = false;
  let target = port;
  const closeAll = (): void => {
    for (const socket of [...sockets]) socket.destroy();
  };
  const close = (): void => {
    isOpen = false;
    closeAll();
  };
  const server = createServer((client) => {
    if (!isOpen) {
      client.destroy();
      return;
    }
    const upstream = connect(target, '127.0.0.1');
    let isCommitting = false;
    const end = (): void => {
      for (const socket of [client, upstream]) {
        socket.destroy();
        sockets.delete(socket);
      }
    };
    for (const socket of [client, upstream]) {
      sockets.add(socket);
      socket.setNoDelay(true);
      socket.on('error', end);
      socket.on('close', end);
    }
    client.on('data', (bytes: Buffer) => {
      isCommitting = isCommit(bytes);
      upstream.write(bytes);
    });
    upstream.on('data', (bytes: Buffer) => {
      if (isCommitting && left > 0) {
        left -= 1;
        cuts += 1;
        if (left === 0 && closesThen) close();
        else end();
      } else client.write(bytes);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    cutAnswers: (count, { then_close } = { then_close: false }) => {
      left = count;
      closesThen = then_close;
    },
    cuts: () => cuts,
    close,
    open: () => (isOpen = true),
    lead: (other) => {
      target = other;
      closeAll();
    },
    end: async () => {
      closeAll();
      server.close();
      await once(server, 'close');
    },
  };
}
