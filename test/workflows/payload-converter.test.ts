import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { RawValue, defaultPayloadConverter } from '@temporalio/common';
import { KeptJson } from '../../src/platform/json/kept.js';
import { payloadConverter } from '../../src/workflows/payload-converter.js';

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const json = (text: string) => ({
  metadata: { encoding: bytes('json/plain') },
  data: bytes(text),
});
const textOf = (value: unknown): string =>
  new TextDecoder().decode(payloadConverter.toPayload(value).data ?? undefined);

describe('a payload', () => {
  test('that is passed on whole is passed on as it came', () => {
    const came = json('{"samples": [{"extra_env_info": {"seed": 9223372036854775783, "3": 1.0}}]}');
    const value = payloadConverter.fromPayload(came);
    assert.equal(payloadConverter.toPayload(value), came);
  });

  test('within another value keeps the digits of others', () => {
    const { metadata } = payloadConverter.fromPayload<{ metadata: unknown }>(
      json('{"metadata":{"seed":9223372036854775783}}'),
    );
    assert.ok(metadata instanceof KeptJson);
    assert.equal(textOf({ metadata, n: 1 }), '{"metadata":{"seed":9223372036854775783},"n":1}');
  });

  test('of the SDK, such as what the Web UI asks a workflow for, is as the SDK has it', () => {
    const details = { currentDetails: 'Waiting for the engine' };
    const made = payloadConverter.toPayload(new RawValue(details));
    assert.deepEqual(defaultPayloadConverter.fromPayload(made), details);
  });

  test('of a value without JSON is as Temporal has it', () => {
    assert.equal(payloadConverter.fromPayload(payloadConverter.toPayload(undefined)), undefined);
    const binary = payloadConverter.toPayload(Uint8Array.of(1, 2));
    assert.deepEqual(payloadConverter.fromPayload(binary), Uint8Array.of(1, 2));
    for (const value of [null, 1, 'x', [1, { a: null }]])
      assert.deepEqual(payloadConverter.fromPayload(payloadConverter.toPayload(value)), value);
  });
});
