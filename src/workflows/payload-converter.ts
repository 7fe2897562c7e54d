import type { PayloadConverter } from '@temporalio/workflow';
import { defaultPayloadConverter } from '@temporalio/workflow';
import { isUndecodable, undecodable } from '../model/workflow-safe/undecodable.js';
import { MAX_LEVELS, shapeProblem } from '../platform/json/depth.js';
import { plainLine } from '../platform/plain.js';

type Payload = Parameters<PayloadConverter['fromPayload']>[0];

const MOST_OF_REASON = 300;

/**
 * Temporal's own converter, but decoding never throws: any client may send anything. What a workflow passes on whole, it
 * passes on as it came, with all digits and in the order of its keys.
 */
export const payloadConverter: PayloadConverter = {
  toPayload: (value) => {
    if (isUndecodable(value)) return value.payload as Payload;
    const as_it_came = isObject(value) ? CAME.get(value) : undefined;
    return as_it_came ?? defaultPayloadConverter.toPayload(value);
  },
  fromPayload: decoded as PayloadConverter['fromPayload'],
};

function decoded(payload: Payload): unknown {
  try {
    const value = defaultPayloadConverter.fromPayload<unknown>(payload);
    const shape = isObject(value) ? shapeOf(payload) : null;
    if (shape !== null) return undecodable(`other JSON: ${shape}`, payload);
    if (isObject(value)) CAME.set(value, payload);
    return value;
  } catch (error) {
    return undecodable(whatCame(payload, error), payload);
  }
}

const CAME = new WeakMap<object, Payload>();

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

const CHUNK = 8192;

/** One that is nested too deeply could not be written again. */
function shapeOf({ data }: Payload): string | null {
  if (!data || data.length <= MAX_LEVELS) return null;
  // Bytes for characters: what is not ASCII plays no part in it.
  let text = '';
  for (let at = 0; at < data.length; at += CHUNK)
    text += String.fromCharCode(...data.subarray(at, at + CHUNK));
  return shapeProblem(text);
}

/** A payload without an encoding has nothing that says how to read it. */
function whatCame({ metadata }: Payload, error: unknown): string {
  const encoding = metadata?.['encoding'];
  if (encoding === undefined) return 'a payload without metadata.encoding';
  const name = String.fromCharCode(...encoding.slice(0, 40));
  if (name !== 'json/plain') return plainLine(`a payload of encoding ${JSON.stringify(name)}`);
  const reason = error instanceof Error ? error.message : String(error);
  return plainLine(`something else: ${reason}`).slice(0, MOST_OF_REASON);
}
