import { createServer, request as send } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';

/** An engine whose penalties change nothing: it passes everything on to another one, without them. */
export async function startWithoutPenalties(
  engine: string,
): Promise<{ url: string; close: () => Promise<void> }> {
  const server = createServer((from, to) => {
    void text(from).then((body) => {
      const given = body === '' ? {} : (JSON.parse(body) as Record<string, unknown>);
      delete given['presence_penalty'];
      delete given['frequency_penalty'];
      const sent = body === '' ? '' : JSON.stringify(given);
      const headers = { ...from.headers, 'content-length': Buffer.byteLength(sent) };
      const onward = send(
        `${engine}${from.url ?? ''}`,
        { method: from.method, headers },
        (answer) => {
          to.writeHead(answer.statusCode ?? 502, answer.headers);
          answer.pipe(to);
          answer.on('error', () => to.destroy());
        },
      );
      onward.on('error', () => to.destroy());
      to.on('close', () => onward.destroy());
      onward.end(sent);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    close: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
