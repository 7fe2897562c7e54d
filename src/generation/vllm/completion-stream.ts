import type { Readable } from 'node:stream';
import { APIError } from 'openai';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { dataOf, readEvents } from '../../platform/http/event-stream.js';
import type { Passage } from '../../platform/http/skipped.js';
import { asCompletionChunk } from './generate-wire.js';
import type { KnownTokens, WireName } from './known-events.js';
import { knownIn } from './known-events.js';
import { flatError } from './wire-faults.js';

/** What comes of a stream. What these throw ends the reading. */
export interface Arrivals {
  /** Tokens of an event in the usual shape. */
  tokens: (tokens: KnownTokens) => void;
  /** Any other event, parsed, in the shape of completions. */
  chunk: (chunk: unknown) => void;
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
      const error = errorIn(chunk);
      if (error !== null) throw error;
      arrivals.chunk(wire === 'generate' ? asCompletionChunk(chunk) : chunk);
    },
  });
}

/** Servers write errors into streams, as `{"error": …}` or flat. */
function errorIn(chunk: unknown): APIError | null {
  const { error } = Object(chunk) as { error?: unknown };
  return error ? new APIError(undefined, error, undefined, undefined) : flatError(chunk);
}
