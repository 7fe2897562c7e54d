import type { Readable } from 'node:stream';
import type { StreamBounds } from '../../platform/http/event-stream.js';
import { readEvents } from '../../platform/http/event-stream.js';
import type { Passage } from '../../platform/http/skipped.js';
import type { GenerationRequest } from '../generation-service.js';
import { ErrorEvent, isErrorEvent } from './wire-faults.js';

/**
 * A token takes some 350 bytes on the wire, an id of a prompt's echo 7, a proxy's keep-alive comment 20. A stream of
 * ten times as much is no generation.
 */
const STREAM_BYTES = { token: 4096, prompt_id: 32, others: 2 ** 20 } as const;

/** `repeats`: each event has the whole answer so far. */
export function boundsOf(
  { max_tokens, prompt_ids }: GenerationRequest,
  { max_answer_bytes, repeats = false }: { max_answer_bytes: number; repeats?: boolean },
): StreamBounds {
  const { token, prompt_id, others } = STREAM_BYTES;
  const max_bytes = max_tokens * token + prompt_ids.length * prompt_id + others;
  const max_event_bytes = Math.min(max_bytes, max_answer_bytes);
  return {
    max_bytes: repeats ? max_tokens * max_event_bytes + others : max_bytes,
    max_event_bytes,
  };
}

/**
 * What some engines send of each token, or of a whole turn, to whoever asks for tokens (`--enable-return-routed-experts`,
 * `--return-sampling-mask`): many times what a token takes. A text of JSON cannot hold these quotes without a backslash.
 */
const UNASKED: readonly Passage[] = [
  { begin: '"routed_experts":"', end: '"' },
  { begin: '"sampling_mask":[[', end: ']]' },
  { begin: '"output_token_sampling_mask":[[', end: ']]' },
];

/** Reads the stream of one answer. Rejects with an error that came as an event, or with what broke the stream. */
export function readAnswer(
  body: Readable,
  { bounds, take }: { bounds: StreamBounds; take: (event: unknown) => void },
): Promise<void> {
  return readEvents(body, {
    ...bounds,
    without: UNASKED,
    take: (data) => {
      const parsed: unknown = JSON.parse(data);
      if (isErrorEvent(parsed)) throw new ErrorEvent(parsed);
      take(parsed);
    },
  });
}
