import { createServer } from 'node:net';

/** Keeps the port of a server that is away, so that nobody takes it; who connects is cut off. Call the result to free it. */
export async function keepPort(address: string): Promise<() => Promise<void>> {
  const { hostname: host, port } = new URL(`http://${address}`);
  const nobody = createServer((socket) => socket.destroy());
  await new Promise<void>((resolve, reject) => {
    nobody.once('error', reject).listen(Number(port), host, resolve);
  });
  return () =>
    new Promise((resolve) =>
      nobody.close(() => {
        resolve();
      }),
    );
}
