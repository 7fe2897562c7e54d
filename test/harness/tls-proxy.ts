import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import type { Duplex } from 'node:stream';
import { createServer } from 'node:tls';
import type { Pair } from './certificates.js';

/** Speaks TLS before a server that does not. */
export interface TlsProxy {
  address: string;
  /** Clients need certificates of this authority from now on, and all connections are cut. */
  trust: (authority: string) => void;
  end: () => Promise<void>;
}

/** `to`: address of the server. `clients`: the file of the authority of clients' certificates. */
export async function startTlsProxy(
  to: string,
  { own, clients }: { own: Pair; clients: string },
): Promise<TlsProxy> {
  const sockets = new Set<Duplex>();
  const [host = '', port = ''] = to.split(':');
  const context = (authority: string) => ({
    cert: readFileSync(own.cert),
    key: readFileSync(own.key),
    ca: readFileSync(authority),
  });
  const server = createServer(
    {
      ...context(clients),
      ALPNProtocols: ['h2'],
      requestCert: true,
      rejectUnauthorized: true,
    },
    (client) => {
      const upstream = connect(Number(port), host);
      const end = (): void => {
        for (const socket of [client, upstream]) {
          socket.destroy();
          sockets.delete(socket);
        }
      };
      for (const socket of [client, upstream]) {
        sockets.add(socket);
        socket.on('error', end);
        socket.on('close', end);
      }
      client.pipe(upstream).pipe(client);
    },
  );
  server.on('tlsClientError', () => undefined);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const cut = (): void => {
    for (const socket of [...sockets]) socket.destroy();
  };
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    trust: (authority) => {
      server.setSecureContext(context(authority));
      cut();
    },
    end: async () => {
      cut();
      server.close();
      await once(server, 'close');
    },
  };
}
