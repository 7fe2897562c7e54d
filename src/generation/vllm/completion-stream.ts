import type { Readable } from 'node:stream';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { dataOf, readEvents } from '../../platform/http/event-stream.js';
import type { Passage } from '../../platform/http/skipped.js';
import { asCompletionChunk } from './generate-wire.js';
import type { WireName } from './known-events.js';
import { knownIn } from './known-events.js';
import type { GenerationRequest } from '../generation-service.js';
import type { Arrivals } from '../wire/stream-assembler.js';
import { ErrorEvent, isErrorEvent } from '../wire/wire-faults.js';

/**
 * A token takes some 350 bytes on the wire, an id of a prompt's echo 7, a proxy's keep-alive comment 20. A stream of
 * ten times as much is no generation.
 */
const STREAM_BYTES = { token: 4096, prompt_id: 32, others: 2 ** 20 } as const;

export function boundsOf(
  { max_tokens, prompt_ids }: GenerationRequest,
  max_answer_bytes: number,
): StreamBounds {
  const { token, prompt_id, others } = STREAM_BYTES;
  const max_bytes = max_tokens * token + prompt_ids.length * prompt_id + others;
  return { max_bytes, max_event_bytes: Math.min(max_bytes, max_answer_bytes) };
}

/**
 * What some engines send of each token, or of a whole turn, to whoever asks for tokens (`--enable-return-routed-experts`,
 * `--return-sampling-mask`): many times what a token takes. A text of JSON cannot hold these quotes without a backslash.
 */
const UNASKED: readonly Passage[] = [
  { begin: '"routed_experts":"', end: '"' },
  { begin: '"sampling_mask":[[', end: ']]' },
];

/** Reads the stream of one answer. Rejects with an error that came as an event, or with what broke the stream. */
export function readCompletion(
  body: Readable,
  {
    wire,
    bounds,
    tops,
    arrivals,
  }: { wire: WireName; bounds: StreamBounds; tops: boolean; arrivals: Arrivals },
): Promise<void> {
  let isDone = false;
  return readEvents(body, {
    ...bounds,
    without: UNASKED,
    // Their likeliest ids take a reader that looks into everything.
    ...(!tops && { takeKnown: (bytes) => knownIn(bytes, { wire, take: arrivals.tokens }) }),
    take: (event) => {
      const data = dataOf(event);
      isDone ||= data?.startsWith('[DONE]') ?? false;
      if (data === null || isDone) return;
      const chunk: unknown = JSON.parse(data);
      if (isErrorEvent(chunk)) throw new ErrorEvent(chunk);
      arrivals.chunk(wire === 'generate' ? asCompletionChunk(chunk) : chunk);
    },
  });
}
