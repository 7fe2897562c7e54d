import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

/** Passes requests on to an engine and keeps what it says: the ids that it read, those that it sampled, their logprobs. */

export interface Recorded {
  prompt_ids: number[];
  token_ids: number[];
  logprobs: number[];
}

export interface RecordingProxy {
  base_url: string;
  /** Whole completions, in the order in which they ended. */
  recorded: Recorded[];
  close: () => Promise<void>;
}

interface Chunk {
  choices?: {
    prompt_token_ids?: number[] | null;
    token_ids?: number[] | null;
    logprobs?: { token_logprobs?: number[] } | null;
  }[];
}

const OF_THE_CONNECTION = new Set([
  'host',
  'connection',
  'content-length',
  'transfer-encoding',
  'expect',
]);

/** `target`: the engine's base URL, with `/v1`. */
export async function startRecordingProxy(target: string): Promise<RecordingProxy> {
  const origin = new URL(target).origin;
  const recorded: Recorded[] = [];
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
      let text = '';
      const decoder = new TextDecoder();
      for await (const part of answer.body ?? []) {
        response.write(part);
        text += decoder.decode(part as Uint8Array, { stream: true });
      }
      response.end();
      const one = url.startsWith('/v1/completions') ? completionIn(text) : null;
      if (one !== null) recorded.push(one);
    })().catch(() => response.destroy());
  });
  await new Promise<void>((resolve) => {
    server.listen(0, '127.0.0.1', resolve);
  });
  return {
    base_url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
    recorded,
    close: () =>
      new Promise((resolve) => {
        server.closeAllConnections();
        server.close(() => {
          resolve();
        });
      }),
  };
}

/** Of a stream with `return_token_ids`; null: it has no prompt. */
function completionIn(text: string): Recorded | null {
  const chunks = text
    .split('\n')
    .filter((line) => line.startsWith('data: {'))
    .flatMap((line) => (JSON.parse(line.slice('data: '.length)) as Chunk).choices ?? []);
  const prompt_ids = chunks.find(({ prompt_token_ids }) => prompt_token_ids)?.prompt_token_ids;
  if (prompt_ids == null) return null;
  return {
    prompt_ids,
    token_ids: chunks.flatMap(({ token_ids }) => token_ids ?? []),
    logprobs: chunks.flatMap(({ logprobs }) => logprobs?.token_logprobs ?? []),
  };
}
