import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { createRandom } from '../../simulator/random.js';

/** One address of several servers: each connection leads to one of them at random (of one seed), whether it answers or not. */
export interface Balancer {
  url: string;
  /** Connections by port. */
  led: ReadonlyMap<number, number>;
  close: () => Promise<void>;
}

export async function startBalancer(ports: readonly number[]): Promise<Balancer> {
  const open = new Set<Socket>();
  const led = new Map<number, number>();
  const random = createRandom(1);
  const server = createServer((client) => {
    const port = ports[Math.floor(random() * ports.length)] ?? 0;
    led.set(port, (led.get(port) ?? 0) + 1);
    const behind = connect(port, '127.0.0.1');
    for (const [one, other] of [
      [client, behind],
      [behind, client],
    ] as const) {
      open.add(one);
      one.setNoDelay(true);
      one.on('error', () => undefined);
      one.on('close', () => {
        open.delete(one);
        other.destroy();
      });
      one.pipe(other);
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    led,
    close: async () => {
      for (const socket of open) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}
