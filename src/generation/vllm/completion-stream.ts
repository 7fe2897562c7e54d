import type { Readable } from 'node:stream';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { readAnswer } from '../wire/answer-stream.js';
import type { Arrivals } from '../wire/stream-assembler.js';
import { asCompletionChunk } from './generate-wire.js';
import type { WireName } from './known-events.js';
import { knownIn } from './known-events.js';

/** Reads the stream of one answer. `tops`: with likeliest ids, which take a reader that looks into everything. */
export function readCompletion(
  body: Readable,
  {
    wire,
    bounds,
    tops,
    arrivals: { tokens, chunk },
  }: { wire: WireName; bounds: StreamBounds; tops: boolean; arrivals: Arrivals },
): Promise<void> {
  return readAnswer(body, {
    bounds,
    ...(!tops && { takeKnown: (bytes) => knownIn(bytes, { wire, take: tokens }) }),
    take: (event) => {
      chunk(wire === 'generate' ? asCompletionChunk(event) : event);
    },
  });
}
