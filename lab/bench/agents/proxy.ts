import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { serveParent } from '../contender-process.js';
import { readText, sampled } from './asking.js';
import { engineAt } from './bed.js';
import type { ChatBody } from './replay.js';

/**
 * A proxy as most have it: it renders the whole conversation for each call, streams what the engine says, and keeps
 * nothing. The same client of engines as the gateway's.
 */
const [engine = '', agents = '64'] = process.argv.slice(2);
const service = engineAt(engine);
let calls = 0;
const TOOL = '<tool_call>';

async function answer(response: ServerResponse, body: ChatBody): Promise<void> {
  const number = (calls += 1);
  const head = { id: `chatcmpl-${number}`, created: 0, model: 'policy' };
  const say = (delta: object, more: object = {}): void => {
    response.write(
      `data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [{ index: 0, delta, finish_reason: null, ...more }] })}\n\n`,
    );
  };
  if (body.stream === true) response.writeHead(200, { 'content-type': 'text/event-stream' });
  let text = '';
  const { finish_reason, tokens } = await sampled(service, {
    body,
    id: `proxy-${number}`,
    said: (more) => {
      text += more;
      if (body.stream === true && !text.includes(TOOL[0] ?? '')) say({ content: more });
    },
  });
  const { content, tool_calls } = readText(text, number);
  const usage = { prompt_tokens: 0, completion_tokens: tokens, total_tokens: tokens };
  if (body.stream !== true) {
    response.writeHead(200, { 'content-type': 'application/json' });
    const message = { role: 'assistant', content, ...(tool_calls.length > 0 && { tool_calls }) };
    response.end(
      JSON.stringify({
        ...head,
        object: 'chat.completion',
        choices: [{ index: 0, message, finish_reason }],
        usage,
      }),
    );
    return;
  }
  say({ tool_calls: tool_calls.map((call, index) => ({ index, ...call })) }, { finish_reason });
  response.end(`data: ${JSON.stringify({ ...head, choices: [], usage })}\n\ndata: [DONE]\n\n`);
}

const server = createServer((request, response) => {
  void (async () => {
    const parts: Buffer[] = [];
    for await (const part of request) parts.push(part as Buffer);
    await answer(response, JSON.parse(Buffer.concat(parts).toString()) as ChatBody);
  })().catch((error: unknown) => response.destroy(error as Error));
});
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
serveParent(
  () => Promise.resolve(Array.from({ length: Number(agents) }, () => ({ url, headers: {} }))),
  () => service.close(),
);
