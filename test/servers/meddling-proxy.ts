import type { ServerResponse } from 'node:http';
import type { PassingProxy } from './passing-proxy.js';
import { startPassingProxy } from './passing-proxy.js';

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

export interface MeddlingProxy extends PassingProxy {
  /** What the next streams meet, one each; others pass as they are. */
  next: Meddling[];
  /** All events that the engine sent, stream by stream. */
  streams: string[][];
}

const STREAMED = ['/v1/completions', '/inference/v1/generate', '/generate'];

/** Of SGLang. */
interface OwnEvent {
  output_ids: number[];
  meta_info: { completion_tokens: number; output_token_logprobs: [logprob: number, id: number][] };
}

interface Event {
  choices: {
    token_ids: number[];
    logprobs: { token_logprobs: number[] } | { content: { logprob: number }[] };
  }[];
}

/** What an engine has sampled, with its logprobs, by any wire. */
export function tokensSent(events: readonly string[]): [id: number, logprob: number][] {
  const parsed = events
    .filter((event) => event.startsWith('data: {'))
    .map((event) => JSON.parse(event.slice('data: '.length)) as Event | OwnEvent);
  let count = 0;
  return parsed.flatMap((event) => {
    if ('choices' in event) return choicesSent(event);
    const { output_ids, meta_info } = event;
    const own = output_ids.length === meta_info.completion_tokens ? count : 0;
    count = meta_info.completion_tokens;
    return meta_info.output_token_logprobs
      .slice(own)
      .map(([logprob, id]): [number, number] => [id, Math.min(0, logprob)]);
  });
}

const choicesSent = ({ choices }: Event): [id: number, logprob: number][] =>
  choices.flatMap(({ token_ids, logprobs }) => {
    const own =
      'content' in logprobs
        ? logprobs.content.map(({ logprob }) => logprob)
        : logprobs.token_logprobs;
    return token_ids.map((id, i): [number, number] => [id, Math.min(0, own[i]!)]);
  });

/** `target`: the engine's base URL, with `/v1`. */
export async function startMeddlingProxy(target: string): Promise<MeddlingProxy> {
  const next: Meddling[] = [];
  const streams: string[][] = [];
  const proxy = await startPassingProxy(target, async (body, { url, type, response }) => {
    if (!STREAMED.includes(url) || !type.startsWith('text/event-stream')) {
      for await (const part of body) response.write(part);
      return;
    }
    const events: string[] = [];
    streams.push(events);
    const pass = meddled(next.shift() ?? null, response);
    let waiting = '';
    const decoder = new TextDecoder();
    for await (const part of body) {
      const pieces = (waiting + decoder.decode(part, { stream: true })).split('\n\n');
      waiting = pieces.pop() ?? '';
      for (const event of pieces) {
        events.push(event);
        await pass(`${event}\n\n`);
      }
    }
  });
  return { ...proxy, next, streams };
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
