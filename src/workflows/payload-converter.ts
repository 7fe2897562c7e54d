import type { PayloadConverter } from '@temporalio/workflow';
import { defaultPayloadConverter } from '@temporalio/workflow';
import { IN_PAYLOADS } from '../model/workflow-safe/foreign.js';
import { isUndecodable, undecodable } from '../model/workflow-safe/undecodable.js';
import { shapeProblem } from '../platform/json/depth.js';
import { KeptJson, readJson, writeJson } from '../platform/json/kept.js';
import { plainLine } from '../platform/plain.js';

type Payload = Parameters<PayloadConverter['fromPayload']>[0];

/**
 * Temporal's own converter, but decoding never throws: any client may send anything. What a workflow passes on whole, it
 * passes on as it came, with all digits and in the order of its keys.
 */
export const payloadConverter: PayloadConverter = {
  toPayload: (value) => {
    if (isUndecodable(value)) return value.payload as Payload;
    if (!isJson(value)) return defaultPayloadConverter.toPayload(value);
    return (
      CAME.get(value) ?? {
        metadata: { encoding: bytesOf(JSON_PLAIN) },
        data: bytesOf(writeJson(value)),
      }
    );
  },
  fromPayload: decoded as PayloadConverter['fromPayload'],
};

const CAME = new WeakMap<object, Payload>();

const JSON_PLAIN = 'json/plain';

function decoded(payload: Payload): unknown {
  const encoding = encodingOf(payload);
  try {
    const value =
      encoding === JSON_PLAIN ? parsed(payload) : defaultPayloadConverter.fromPayload(payload);
    if (isObject(value)) CAME.set(value, payload);
    return value;
  } catch (error) {
    return undecodable(whatCame(encoding, error), payload);
  }
}

/** Workflows and Node have both, though workflows are checked without their types. */
declare const TextEncoder: new () => { encode: (text: string) => Uint8Array };
declare const TextDecoder: new (
  encoding: 'utf-8',
  options: { fatal: true; ignoreBOM: true },
) => { decode: (bytes: Uint8Array) => string };

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Bytes that are no UTF-8 are not replaced. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function parsed({ data }: Payload): unknown {
  if (!data) throw new Error('no data');
  const text = utf8.decode(data);
  // What is nested too deeply could not be written again.
  const problem = shapeProblem(text);
  if (problem !== null) throw new Error(problem);
  return readJson(text, IN_PAYLOADS);
}

/** Bytes, and the SDK's own values (the metadata that the Web UI asks for), are not. */
const isJson = (value: unknown): value is object =>
  isObject(value) &&
  (value instanceof KeptJson ||
    [Object.prototype, Array.prototype, null].includes(Object.getPrototypeOf(value) as object));

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null;

/** null: nothing says how to read it. */
function encodingOf({ metadata }: Payload): string | null {
  const encoding = metadata?.['encoding'];
  return encoding === undefined ? null : String.fromCharCode(...encoding.slice(0, 40));
}

const MOST_OF_REASON = 300;

function whatCame(encoding: string | null, error: unknown): string {
  if (encoding === null) return 'a payload without metadata.encoding';
  if (encoding !== JSON_PLAIN)
    return plainLine(`a payload of encoding ${JSON.stringify(encoding)}`);
  const reason = error instanceof Error ? error.message : String(error);
  return plainLine(`something else: ${reason}`).slice(0, MOST_OF_REASON);
}
