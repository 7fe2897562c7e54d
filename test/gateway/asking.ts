import type { Refusal } from '../../src/gateway/request/refusals.js';
import { Refused } from '../../src/gateway/request/refusals.js';
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Life } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

/** What a program asks the gateway, and how it reads the answer. */

/** Asks on a connection of its own, which closes behind the answer: it has arrived. */
export async function askAlone(
  { url, headers, playing }: Life,
  { body, more = {} }: { body: object; more?: Record<string, string> },
): Promise<{ status: number; text: string; content: string }> {
  const { lives, calls } = playing.journal.trajectory;
  const life = lives.length;
  const asked = request(`${url}/chat/completions`, {
    method: 'POST',
    agent: false,
    headers: { ...headers, ...more },
  });
  asked.end(JSON.stringify(body));
  const [reply] = (await once(asked, 'response')) as [IncomingMessage];
  const status = reply.statusCode ?? 0;
  const got = await text(reply);
  const turn = Number(/"id":"chatcmpl-[^"]*-(\d+)"/.exec(got)?.[1] ?? -1);
  if (status === 200) await eventually('its arrival', () => calls[turn]?.given.get(life) === true);
  const isStream = reply.headers['content-type']?.startsWith('text/event-stream') === true;
  const read = status !== 200 ? '' : isStream ? readStream(got).content : contentOf(got);
  return { status, text: got, content: read };
}

const contentOf = (body: string): string =>
  (JSON.parse(body) as { choices: [{ message: { content: string | null } }] }).choices[0].message
    .content ?? '';

/** Reads a stream up to so many characters, then cuts its connection. Resolves when the gateway has seen that. */
export async function askInPart(
  life: Life,
  { body, characters }: { body: object; characters: number },
): Promise<string> {
  const gone = new AbortController();
  const name = randomUUID();
  const closed = gatewayCloses(name);
  const headers = { [NAME_OF_CUT]: name };
  const reply = await life.post({ ...body, stream: true }, { signal: gone.signal, headers });
  const reader = reply.body!.pipeThrough(new TextDecoderStream()).getReader();
  let got = '';
  while (got.length < characters) got += (await reader.read()).value ?? assert.fail('it ended');
  gone.abort();
  await closed;
  return got;
}

/** Asks, and closes the connection before an answer comes. Resolves when the gateway has seen that. */
export async function askAndLeave(
  life: Life,
  { body, when }: { body: object; when: () => boolean },
): Promise<void> {
  const gone = new AbortController();
  const name = randomUUID();
  const closed = gatewayCloses(name);
  const asked = life.post(body, { signal: gone.signal, headers: { [NAME_OF_CUT]: name } });
  asked.catch(() => undefined);
  await eventually('the moment to leave', when);
  gone.abort();
  await assert.rejects(asked);
  await closed;
}

const NAME_OF_CUT = 'x-name-of-test';

/** A request that comes before the gateway has seen an earlier one close is another call (attack 3). */
function gatewayCloses(name: string): Promise<void> {
  return new Promise((resolve) => {
    const begun = (message: unknown): void => {
      const { request: asked, response } = message as {
        request: IncomingMessage;
        response: ServerResponse;
      };
      if (asked.headers[NAME_OF_CUT] !== name) return;
      unsubscribe('http.server.request.start', begun);
      response.once('close', () => setImmediate(resolve));
    };
    subscribe('http.server.request.start', begun);
  });
}

export const says = (...lines: string[]) => ({
  model: 'policy',
  messages: [{ role: 'user', content: lines.map((line) => `Say: ${line}`).join('\n') }],
});

/** The events of a stream, without keep-alives. */
export const eventsIn = (text: string): string =>
  text
    .split('\n')
    .filter((line) => !line.startsWith(':'))
    .join('\n');

interface Delta {
  content?: string;
  reasoning?: string;
  tool_calls?: { index: number; id: string; function: { name: string; arguments: string } }[];
}

/** What a stream says. */
export function readStream(text: string) {
  const data = eventsIn(text)
    .split('\n\n')
    .filter((event) => event !== '')
    .map((event) => event.replace(/^data: /, ''));
  const events = data
    .filter((one) => one !== '[DONE]')
    .map(
      (one) =>
        JSON.parse(one) as {
          choices: { delta: Delta; finish_reason: string | null }[];
          usage?: unknown;
          error?: { code: string };
        },
    );
  const deltas = events.flatMap(({ choices = [] }) => choices.map(({ delta }) => delta));
  return {
    content: deltas.map(({ content = '' }) => content).join(''),
    reasoning: deltas.map(({ reasoning = '' }) => reasoning).join(''),
    calls: deltas.flatMap(({ tool_calls = [] }) => tool_calls),
    finish: events.flatMap(({ choices = [] }) => choices).at(-1)?.finish_reason ?? null,
    error: events.at(-1)?.error ?? null,
    isDone: data.at(-1) === '[DONE]',
  };
}

/** What whoever asks so is told. */
export function refusalOf(read: () => unknown): Refusal {
  try {
    read();
  } catch (error) {
    if (error instanceof Refused) return error.refusal;
    throw error;
  }
  throw new Error('it was taken');
}
