import { createServer, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';

/**
 * Passes requests on to an engine, and meddles with the events of its streams: event `at` comes twice, never, or behind
 * the next one. After `cut` events the connection is reset.
 */

export interface Meddling {
  how: 'repeats' | 'loses' | 'delays';
  /** Which event, from 0. */
  at: number;
  /** null: the stream goes on to its end. */
  cut: number | null;
}

export interface MeddlingProxy {
  base_url: string;
  /** What the next streams meet, one each; others pass as they are. */
  next: Meddling[];
  /** All events that the engine sent, stream by stream. */
  streams: string[][];
  close: () => Promise<void>;
}

const STREAMED = ['/v1/completions', '/inference/v1/generate'];
const OF_THE_CONNECTION = new Set(['host', 'connection', 'content-length', 'transfer-encoding']);

interface Event {
  choices: {
    token_ids: number[];
    logprobs: { token_logprobs: number[] } | { content: { logprob: number }[] };
  }[];
}

/** What an engine has sampled, with its logprobs, by either wire. */
export const tokensSent = (events: readonly string[]): [id: number, logprob: number][] =>
  events
    .filter((event) => event.startsWith('data: {'))
    .flatMap((event) => (JSON.parse(event.slice('data: '.length)) as Event).choices)
    .flatMap(({ token_ids, logprobs }) => {
      const own =
        'content' in logprobs
          ? logprobs.content.map(({ logprob }) => logprob)
          : logprobs.token_logprobs;
      return token_ids.map((id, i): [number, number] => [id, Math.min(0, own[i]!)]);
    });

/** `target`: the engine's base URL, with `/v1`. */
export async function startMeddlingProxy(target: string): Promise<MeddlingProxy> {
  const { origin } = new URL(target);
  const next: Meddling[] = [];
  const streams: string[][] = [];
  const server = createServer((request, response) => {
    const cut = new AbortController();
    response.on('close', () => {
      cut.abort();
    });
    void (async () => {
      const parts: Buffer[] = [];
      for await (const part of request) parts.push(part as Buffer);
      const { method = 'GET', url = '/', headers } = request;
      const passed = Object.entries(headers).filter(([name]) => !OF_THE_CONNECTION.has(name));
      const answer = await fetch(`${origin}${url}`, {
        method,
        headers: Object.fromEntries(passed) as Record<string, string>,
        ...(method === 'POST' && { body: Buffer.concat(parts) }),
        signal: cut.signal,
      });
      const type = answer.headers.get('content-type') ?? 'application/json';
      response.writeHead(answer.status, { 'content-type': type });
      const isStream = STREAMED.includes(url) && type.startsWith('text/event-stream');
      const meddling = isStream ? (next.shift() ?? null) : null;
      if (isStream) streams.push([]);
      const events = streams.at(-1) ?? [];
      const pass = meddled(meddling, response);
      let waiting = '';
      const decoder = new TextDecoder();
      for await (const part of answer.body ?? []) {
        if (!isStream) {
          response.write(part);
          continue;
        }
        const pieces = (waiting + decoder.decode(part as Uint8Array, { stream: true })).split(
          '\n\n',
        );
        waiting = pieces.pop() ?? '';
        for (const event of pieces) {
          events.push(event);
          await pass(`${event}\n\n`);
        }
      }
      response.end();
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    next,
    streams,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}

/** Writes each event as the meddling wants it. */
function meddled(
  meddling: Meddling | null,
  response: ServerResponse,
): (event: string) => Promise<void> {
  let count = 0;
  let late = '';
  return async (event) => {
    const at = count;
    count += 1;
    const isIt = at === meddling?.at;
    const delays = isIt && meddling.how === 'delays';
    const times = isIt ? (meddling.how === 'repeats' ? 2 : 0) : 1;
    response.write(event.repeat(times) + late);
    late = delays ? event : '';
    if (meddling === null || meddling.cut === null || count < meddling.cut) return;
    // A reset may overtake what was written before it.
    await new Promise((resolve) => setTimeout(resolve, 30));
    response.socket?.resetAndDestroy();
    throw new Error('cut');
  };
}
