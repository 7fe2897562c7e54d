import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { createVllmService } from '../../src/generation/vllm/vllm-service.js';
import type { Said } from './conversation.js';
import { requestOf } from './engine-request.js';

/**
 * A proxy as most have it: it renders the whole conversation for each call, streams what the engine says, and keeps
 * nothing. The same client of engines as the gateway's.
 */
const [engine = ''] = process.argv.slice(2);
const service = createVllmService({
  base_url: engine,
  api_key: null,
  first_token_timeout_ms: 60_000,
  idle_timeout_ms: 60_000,
});
let calls = 0;

const server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    const { messages } = JSON.parse(Buffer.concat(parts).toString()) as { messages: Said[] };
    const { signal } = new AbortController();
    const prompt_ids = await service.renderChat(
      { model: 'simulator', messages, add_generation_prompt: true, chat_template_kwargs: {} },
      signal,
    );
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const say = (delta: object, finish_reason: string | null): void => {
      response.write(
        `data: ${JSON.stringify({ id: 'c', object: 'chat.completion.chunk', created: 0, model: 'policy', choices: [{ index: 0, delta, finish_reason }] })}\n\n`,
      );
    };
    const { finish_reason } = await service.generate(
      requestOf(prompt_ids, `proxy-${(calls += 1)}`),
      {
        signal,
        onDelta: ({ text }) => {
          if (text !== '') say({ content: text }, null);
        },
      },
    );
    say({}, finish_reason);
    response.end('data: [DONE]\n\n');
  })().catch((error: unknown) => response.destroy(error as Error));
});

server.listen(0, '127.0.0.1', () => process.send?.({ value: null }));
process.on('message', () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  process.send?.({ value: Array.from({ length: 64 }, () => ({ url, headers: {} })) });
});
