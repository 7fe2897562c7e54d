import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { capture, chunksOf } from '../../../test/generation/captures.js';
import { serveParent } from '../contender-process.js';

/**
 * An engine that writes recorded events of vLLM, for all its streams at once, as an engine's step does: `node --import
 * tsx engine.ts`. It tells its parent its address, and ends with it.
 */

/** The beginning of the path: `/1500-1-5` for 1500 tokens, one an event, an event each 5 ms. */
interface Asked {
  tokens: number;
  /** Tokens an event. */
  each: number;
  /** Between two events of a stream. */
  gap_ms: number;
}

type Event = Record<string, unknown> & { choices: Record<string, unknown>[] };
/** Events from the middle of a recorded stream. */
const middleOf = (number: string): Event[] =>
  (chunksOf(capture(number)) as unknown as Event[]).slice(1, -4);
const MIDDLE = { completions: middleOf('133'), generate: middleOf('189') };

/** One event with the tokens of several, as vLLM merges them. */
function merged(events: readonly Event[]): Event {
  const [first = { choices: [] }] = events;
  const choices = events.flatMap((event) => event.choices);
  const [choice = {}] = choices;
  const all = (name: string) => choices.flatMap((one) => one[name] as unknown[]);
  const lists = choices.map((one) => one['logprobs'] as Record<string, unknown[]>);
  const logprobs = Object.fromEntries(
    Object.keys(lists[0] ?? {}).map((name) => [name, lists.flatMap((one) => one[name] ?? [])]),
  );
  const text = 'text' in choice && { text: choices.map((one) => one['text']).join('') };
  return { ...first, choices: [{ ...choice, ...text, logprobs, token_ids: all('token_ids') }] };
}

/** The data of each event of an answer. */
function* answer(
  { tokens, each }: Asked,
  { wire, prompt }: { wire: keyof typeof MIDDLE; prompt: readonly number[] },
) {
  const middle = MIDDLE[wire];
  const usageOf = (completion_tokens: number) => ({
    prompt_tokens: prompt.length,
    total_tokens: prompt.length + completion_tokens,
    completion_tokens,
    ...(wire === 'generate' && { prompt_tokens_details: null, completion_tokens_details: null }),
  });
  for (let at = 0; at < tokens; at += each) {
    const count = Math.min(each, tokens - at);
    const event = merged(
      Array.from({ length: count }, (_, i) => middle[(at + i) % middle.length] ?? { choices: [] }),
    );
    const [choice = {}] = event.choices;
    if (at === 0 && wire === 'completions') choice['prompt_token_ids'] = prompt;
    if (at + count === tokens) choice['finish_reason'] = 'length';
    yield { ...event, usage: usageOf(at + count) };
  }
  yield { ...middle[0], choices: [], usage: usageOf(tokens) };
}

/** Texts are made before the first is written, so that the engine keeps its pace. */
const textsOf = (events: Iterable<unknown>): string[] =>
  Array.from(events, (event) => `data: ${JSON.stringify(event)}\n\n`);

const server = createServer((request, response) => {
  const url = new URL(request.url ?? '', 'http://engine');
  const [tokens = 0, each = 1, gap_ms = 1] = url.pathname.slice(1).split(/[-/]/, 3).map(Number);
  const asked: Asked = { tokens, each, gap_ms };
  const wire = url.pathname.endsWith('/generate') ? 'generate' : 'completions';
  if (request.method !== 'POST') {
    response.writeHead(404).end('{}');
    return;
  }
  if (url.pathname.endsWith('/detokenize')) {
    response.end('{"prompt":"text"}');
    return;
  }
  let body = '';
  request.setEncoding('utf8').on('data', (text: string) => (body += text));
  request.on('end', () => {
    const sent = JSON.parse(body) as { prompt?: number[]; token_ids?: number[] };
    const texts = textsOf(answer(asked, { wire, prompt: sent.prompt ?? sent.token_ids ?? [] }));
    response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' });
    let at = 0;
    const timer = setInterval(() => {
      response.write(texts[at++]);
      if (at < texts.length) return;
      clearInterval(timer);
      response.end('data: [DONE]\n\n');
    }, asked.gap_ms);
    response.once('close', () => {
      clearInterval(timer);
    });
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
serveParent(
  () => Promise.resolve(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
  () => Promise.resolve(),
);
