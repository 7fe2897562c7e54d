import { setTimeout as sleep } from 'node:timers/promises';
import type { ServiceTask } from './agent-service.js';

/** What one connection said of an answer. */
export interface Heard {
  run: string;
  /** Messages of the request. */
  messages: number;
  text: string;
  whole: boolean;
  /** It came from another address than the one that was asked. */
  redirected: boolean;
}

interface Asking {
  run: string;
  signal: AbortSignal;
  /** A connection without a byte for so long is closed. */
  patience_ms: number;
  heard: Heard[];
}

const RETRIES = 200;

/** Asks for a stream until one is whole, as an agent does whose client repeats what was cut. */
export async function askStreamed(
  { base_url, key }: Pick<ServiceTask, 'base_url' | 'key'>,
  { messages, ...asking }: Asking & { messages: object[] },
): Promise<string> {
  const { signal, heard, run } = asking;
  for (let left = RETRIES; left > 0; left--) {
    const one: Heard = {
      run,
      messages: messages.length,
      text: '',
      whole: false,
      redirected: false,
    };
    heard.push(one);
    await listen(one, { base_url, key, messages, ...asking }).catch((error: unknown) => {
      if (error instanceof Refusal) throw error;
      signal.throwIfAborted();
    });
    if (one.whole) return one.text;
    await sleep(200, undefined, { signal });
  }
  throw new Error(`${run}: no whole answer in ${RETRIES} tries`);
}

/** A status that no client repeats. */
class Refusal extends Error {
  override name = 'Refusal';
}

async function listen(
  one: Heard,
  {
    base_url,
    key,
    messages,
    signal,
    patience_ms,
  }: Omit<Asking, 'heard' | 'run'> & { base_url: string; key: string; messages: object[] },
): Promise<void> {
  const gone = new AbortController();
  const late = setTimeout(() => {
    gone.abort();
  }, patience_ms);
  try {
    const reply = await fetch(`${base_url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: 'policy', messages, stream: true }),
      signal: AbortSignal.any([signal, gone.signal]),
    });
    one.redirected = reply.redirected;
    if (reply.status >= 500) return;
    if (reply.status !== 200) throw new Refusal(`${reply.status} ${await reply.text()}`);
    let rest = '';
    for await (const part of reply.body!.pipeThrough(new TextDecoderStream())) {
      late.refresh();
      const lines = `${rest}${part}`.split('\n');
      rest = lines.pop() ?? '';
      for (const line of lines) hear(one, line);
    }
  } finally {
    clearTimeout(late);
  }
}

function hear(one: Heard, line: string): void {
  const data = line.startsWith('data: ') ? line.slice('data: '.length) : null;
  if (data === '[DONE]') one.whole = true;
  else if (data !== null) {
    const { choices = [] } = JSON.parse(data) as { choices?: { delta: { content?: string } }[] };
    for (const { delta } of choices) one.text += delta.content ?? '';
  }
}
