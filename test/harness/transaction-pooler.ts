import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect, createServer } from 'node:net';

/**
 * A pooler in transaction mode: all clients share one connection to the server, each for one transaction at a time. The
 * first client's login opens it, later ones are let in without. Like PgBouncer, it refuses start-up parameters that it
 * does not track.
 */
export interface TransactionPooler {
  port: number;
  end: () => Promise<void>;
}

const TRACKED =
  /^(user|database|client_encoding|application_name|datestyle|timezone|standard_conforming_strings)$/i;

export async function startTransactionPooler({
  port,
  shows = 'its own',
}: {
  /** The server's. */
  port: number;
  /** The process id that clients are told; a pooler that tells the server's cannot be noticed. */
  shows?: 'its own' | "the server's";
}): Promise<TransactionPooler> {
  const sockets = new Set<Socket>();
  const upstream = connect(port, '127.0.0.1');
  sockets.add(upstream);
  upstream.on('error', () => undefined);
  /** What the server said at the login, up to ReadyForQuery. */
  const greeting: Buffer[] = [];
  let isGreeted = false;
  let startUp: Buffer | null = null;
  let holder: Client | null = null;
  const queue: Client[] = [];

  const next = (): void => {
    holder = queue.shift() ?? null;
    const client = holder;
    if (client === null) return;
    if (startUp === null) {
      startUp = client.startUp;
      upstream.write(startUp);
    } else if (client.isNew) {
      client.isNew = false;
      client.socket.write(Buffer.concat(greeting));
      next();
    } else upstream.write(Buffer.concat(client.waiting.splice(0)));
  };
  const ask = (client: Client): void => {
    if (holder === client) upstream.write(Buffer.concat(client.waiting.splice(0)));
    else if (!queue.includes(client)) queue.push(client);
    if (holder === null) next();
  };

  onMessages(upstream, (message) => {
    const type = String.fromCharCode(message[0] ?? 0);
    const said = type === 'K' && shows === 'its own' ? withOtherProcess(message) : message;
    // Requests for a password and their answers concern the first client alone.
    const isRequest = type === 'R' && message.readInt32BE(5) !== 0;
    if (!isGreeted && !isRequest) greeting.push(said);
    const client = holder;
    client?.socket.write(said);
    if (type !== 'Z') return;
    isGreeted = true;
    if (client !== null) client.isNew = false;
    // In a transaction, it stays with its client.
    if (String.fromCharCode(message[5] ?? 0) === 'I') next();
  });

  const server = createServer((socket) => {
    sockets.add(socket);
    socket.setNoDelay(true);
    socket.on('error', () => socket.destroy());
    let client: Client | null = null;
    socket.on('data', (bytes: Buffer) => {
      if (client === null) {
        const refused = parametersIn(bytes).find((name) => !TRACKED.test(name));
        if (refused !== undefined) {
          socket.end(refusal(`unsupported startup parameter: ${refused}`));
          return;
        }
        client = { socket, startUp: bytes, isNew: true, waiting: [] };
      } else if (bytes[0] === 'X'.charCodeAt(0)) return;
      else client.waiting.push(bytes);
      ask(client);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  return {
    port: typeof address === 'object' && address !== null ? address.port : 0,
    end: async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

interface Client {
  socket: Socket;
  startUp: Buffer;
  isNew: boolean;
  waiting: Buffer[];
}

/** Names of a start-up message: length, version, then texts in pairs. */
function parametersIn(bytes: Buffer): string[] {
  const texts = bytes.subarray(8).toString().split('\0');
  return texts.filter((text, i) => i % 2 === 0 && text !== '');
}

/** Whole messages: a type, a length that counts itself, and the rest. */
function onMessages(socket: Socket, take: (message: Buffer) => void): void {
  let rest = Buffer.alloc(0);
  socket.on('data', (bytes: Buffer) => {
    rest = Buffer.concat([rest, bytes]);
    while (rest.length >= 5 && rest.length > rest.readInt32BE(1)) {
      const end = 1 + rest.readInt32BE(1);
      const message = rest.subarray(0, end);
      rest = rest.subarray(end);
      take(message);
    }
  });
}

function withOtherProcess(message: Buffer): Buffer {
  const other = Buffer.from(message);
  other.writeInt32BE(message.readInt32BE(5) ^ 0x4000_0000, 5);
  return other;
}

function refusal(text: string): Buffer {
  const fields = Buffer.from(`SFATAL\0C08P01\0M${text}\0\0`);
  const head = Buffer.alloc(5);
  head.write('E');
  head.writeInt32BE(4 + fields.length, 1);
  return Buffer.concat([head, fields]);
}
