import { Agent, createServer, request as httpRequest } from 'node:http';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { existsSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { trainerInstall } from '../../dev/trainer-example.js';
import type { BucketSettings } from '../../src/platform/s3/bucket.js';
import { startChild } from '../../dev/child.js';
import { firstFreePort } from '../../dev/free-port.js';
import { temporaryFolder } from '../fakes/temporary-store.js';
import { eventually } from '../../lab/bed/waiting.js';

const install = trainerInstall(process.env);
/** Why tests that need S3 are skipped; false: they are not. */
export const noS3: string | false = existsSync(install.stamp)
  ? false
  : 'moto is not installed: `node tools/setup.mjs --test` says why';

export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage['headers'];
}

/** What happens to a request in place of its answer. */
export type Disturbed =
  | { answer: number; code: string }
  /** The server does it, and its answer is lost. */
  | 'lose the answer'
  /** The connection ends in the middle of the body. */
  | 'cut the request'
  /** The connection ends in the middle of the answer's body. */
  | 'cut the answer'
  /** The connection stays, and nothing comes behind the middle of the answer's body. */
  | 'stall the answer'
  /** As a store does that has no conditional writes. */
  | 'ignore the condition'
  /** Goes on only when this resolves. */
  | { until: Promise<void> }
  | null;

export interface S3Server {
  /** Of the server, with what disturbs it in between. */
  endpoint: string;
  /** A new bucket, with these settings. */
  bucket: (prefix?: string) => Promise<BucketSettings>;
  /** Asked for each request. */
  disturb: (how: (request: Seen) => Disturbed) => void;
  /** Method and path of each request so far. */
  requests: string[];
}

/** How many objects a list has before it goes on. */
export const PAGE = 20;

const ACCESS = {
  AWS_ACCESS_KEY_ID: 'test-access',
  AWS_SECRET_ACCESS_KEY: 'test-secret-of-s3',
  AWS_REGION: 'us-east-1',
  AWS_DEFAULT_REGION: 'us-east-1',
};

/** `moto` as an S3 server on loopback, spoken to by HTTP, behind a proxy that may disturb requests. */
export async function startS3(t: Pick<TestContext, 'after'>): Promise<S3Server> {
  Object.assign(process.env, ACCESS);
  const port = await firstFreePort(0);
  const run = [
    // Its connections stay open: one for each request costs more than the request.
    'from werkzeug.serving import WSGIRequestHandler',
    'WSGIRequestHandler.protocol_version = "HTTP/1.1"',
    `from moto.server import main; main(["-H", "127.0.0.1", "-p", "${port}"])`,
  ].join('\n');
  const folder = await temporaryFolder(t);
  const child = await startChild({
    command: install.python,
    args: ['-c', run],
    cwd: folder,
    env: { ...process.env, MOTO_S3_DEFAULT_MAX_KEYS: String(PAGE) },
    logFile: path.join(folder, 'moto.log'),
    ends: 'kernel',
  });
  t.after(async () => {
    child.kill();
    await child.exited;
  });
  const server = `http://127.0.0.1:${port}`;
  const isThere = () =>
    fetch(`${server}/moto-api/`).then(
      (answer) => answer.ok,
      () => false,
    );
  await eventually('moto to answer', isThere);
  let disturbed: (request: Seen) => Disturbed = () => null;
  const requests: string[] = [];
  const conditional = inTurn();
  const agent = new Agent({ keepAlive: true });
  const proxy = createServer((incoming, outgoing) => {
    const { method = '', url = '', headers } = incoming;
    requests.push(`${method} ${url}`);
    const how = disturbed({ method, path: url, headers });
    void passOn({ incoming, outgoing }, { port, agent, how, conditional });
  });
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  t.after(() => {
    proxy.closeAllConnections();
    proxy.close();
    agent.destroy();
  });
  const endpoint = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`;
  let buckets = 0;
  return {
    endpoint,
    requests,
    bucket: async (prefix = '') => {
      const bucket = `bucket-${port}-${buckets++}`;
      const made = await fetch(`${server}/${bucket}`, { method: 'PUT' });
      if (!made.ok) throw new Error(await made.text());
      return { bucket, prefix, endpoint };
    },
    disturb: (how) => {
      disturbed = how;
    },
  };
}

/** Resolves when all answers before this one are over. */
type InTurn = (answer: ServerResponse) => Promise<void>;

function inTurn(): InTurn {
  let before: Promise<void> = Promise.resolve();
  return (answer) => {
    const turn = before;
    const over = new Promise<void>((resolve) => {
      if (answer.destroyed) resolve();
      answer.once('close', resolve);
    });
    before = turn.then(() => over);
    return turn;
  };
}

async function passOn(
  { incoming, outgoing }: { incoming: IncomingMessage; outgoing: ServerResponse },
  {
    port,
    agent,
    how,
    conditional,
  }: { port: number; agent: Agent; how: Disturbed; conditional: InTurn },
): Promise<void> {
  if (how === 'cut the request') return void incoming.once('data', () => incoming.destroy());
  const chunks: Buffer[] = [];
  for await (const chunk of incoming) chunks.push(chunk as Buffer);
  if (how !== null && typeof how === 'object' && 'answer' in how) {
    const text = `<?xml version="1.0"?><Error><Code>${how.code}</Code><Message>disturbed</Message></Error>`;
    outgoing.writeHead(how.answer, { 'content-type': 'application/xml' });
    return void outgoing.end(text);
  }
  if (how !== null && typeof how === 'object') await how.until;
  const { method, url, headers } = incoming;
  if (how === 'ignore the condition') delete headers['if-none-match'];
  // Its own check and its write are two steps of threads; those of a store are one.
  if (headers['if-none-match'] !== undefined) await conditional(outgoing);
  const to = { agent, host: '127.0.0.1', port, method, path: url, headers };
  const sent = httpRequest(to, (answer) => {
    if (how === 'lose the answer') {
      answer.resume();
      answer.once('end', () => outgoing.destroy());
      return;
    }
    outgoing.writeHead(answer.statusCode ?? 500, answer.headers);
    if (how === 'cut the answer' || how === 'stall the answer') {
      answer.once('data', (bytes: Buffer) => {
        answer.pause();
        outgoing.write(bytes.subarray(0, bytes.length >> 1), () => {
          if (how === 'cut the answer') outgoing.destroy();
        });
      });
      return;
    }
    answer.pipe(outgoing);
  });
  sent.once('error', () => outgoing.destroy());
  sent.end(Buffer.concat(chunks));
}
