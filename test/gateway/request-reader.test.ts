/** Large bodies are read beside the event loop, and mean the same there. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { DIALECTS } from '../../src/gateway/dialects/dialects.js';
import { Refused } from '../../src/gateway/request/refusals.js';
import type { RequestReader } from '../../src/gateway/request/request-reader.js';
import { createRequestReader } from '../../src/gateway/request/request-reader.js';
import { eventually } from '../../lab/bed/waiting.js';

const LIMITS = { structured: 'allow', role_map: {}, kwargs: {} } as const;
const CHAT = { dialect: DIALECTS['chat/completions'], limits: LIMITS };
const RESPONSES = { dialect: DIALECTS.responses, limits: LIMITS };

/** Text as clients may write it: digits and orders of names that values of JavaScript lose. */
const ODD = `{"model": "policy", "stream": true, "max_tokens": 7, "stop": ["x"], "user": "u",
 "tools": [{"type": "function", "function": {"name": "f", "parameters": {"b": 1.0, "2": 9223372036854775783, "1": {"__proto__": 1}}}},
           {"type": "function", "function": {"name": "g"}}],
 "tool_choice": "required",
 "response_format": {"type": "json_schema", "json_schema": {"schema": {"const": 12345678901234567890}}},
 "messages": [{"role": "system", "content": "é 🧩 \\ud800"}, {"role": "user", "content": [{"type": "text", "text": "one"}]},
  {"role": "assistant", "content": null, "reasoning": "why", "tool_calls": [{"id": "call_0_0", "function": {"name": "f", "arguments": "{\\"a\\": 1.0}"}}]},
  {"role": "tool", "tool_call_id": "call_0_0", "content": "seen"}]}`;

/** The same in the other dialect. */
const ODD_RESPONSE = `{"model": "policy", "max_output_tokens": 7, "instructions": "é 🧩 \\ud800",
 "tools": [{"type": "function", "name": "f", "strict": true, "parameters": {"b": 1.0, "2": 9223372036854775783, "1": {"__proto__": 1}}},
           {"type": "function", "name": "g"}],
 "input": [{"role": "user", "content": [{"type": "input_text", "text": "one"}]},
  {"type": "function_call", "call_id": "call_0_0", "name": "f", "arguments": "{\\"a\\": 1.0}"},
  {"type": "function_call_output", "call_id": "call_0_0", "output": "seen"}]}`;

/** In memory of its own, as bodies of connections are: small ones of `Buffer.from` share theirs. */
const bytesOf = (text: string): Buffer => Buffer.from(new TextEncoder().encode(text).buffer);

/** `there`: by the thread, which needs a moment to start. */
async function readers(): Promise<{ here: RequestReader; there: RequestReader }> {
  const there = createRequestReader({ large: 0 });
  const { read } = there;
  await read(bytesOf(ODD), CHAT);
  await eventually('the thread', async () => {
    const body = bytesOf(ODD);
    await read(body, CHAT);
    // What a thread was given is gone here.
    return body.length === 0;
  });
  return { here: createRequestReader({ large: Infinity }), there };
}

describe('a large body', () => {
  test('is the same request as one that is read here', async (t) => {
    const { here, there } = await readers();
    t.after(() => there.close());
    for (const [text, reading] of [
      [ODD, CHAT],
      [ODD_RESPONSE, RESPONSES],
    ] as const) {
      const [one, other] = await Promise.all([
        here.read(bytesOf(text), reading),
        there.read(bytesOf(text), reading),
      ]);
      assert.deepEqual(other, one);
      assert.equal(JSON.stringify(other.tools).includes('KeptJson'), false);
    }
  });

  test('is refused in the same words', async (t) => {
    const { here, there } = await readers();
    t.after(() => there.close());
    for (const text of [
      '{',
      '[]',
      '{"messages": []}',
      ODD.replace('"tool", "tool_call_id": "call_0_0"', '"tool"'),
      ODD.replace('"stream"', '"n": 3, "stream"'),
    ]) {
      const refusalBy = async ({ read }: RequestReader): Promise<unknown> =>
        await read(bytesOf(text), CHAT).then(
          () => assert.fail(`it was read: ${text}`),
          (error: unknown) => (error instanceof Refused ? error.refusal : error),
        );
      assert.deepEqual(await refusalBy(there), await refusalBy(here));
    }
  });

  test('does not hold the event loop while it is read', async (t) => {
    const { here, there } = await readers();
    t.after(() => there.close());
    const messages = Array.from({ length: 3500 }, (_, k) => ({
      role: 'user',
      content: `${k} ${'a word or "two"\n'.repeat(110)}`,
    }));
    const text = JSON.stringify({ model: 'policy', messages });
    assert.ok(text.length > 6 * 1024 * 1024);
    const busyMs = async ({ read }: RequestReader): Promise<number> => {
      const body = bytesOf(text);
      const before = performance.eventLoopUtilization();
      await read(body, CHAT);
      return performance.eventLoopUtilization(before).active;
    };
    // The least of some: whatever else the machine does counts, too.
    const leastOf = async (reader: RequestReader): Promise<number> =>
      Math.min(await busyMs(reader), await busyMs(reader), await busyMs(reader));
    const [byLoop, byThread] = [await leastOf(here), await leastOf(there)];
    assert.ok(byThread < byLoop / 2, `${byThread} ms of the loop against ${byLoop} ms`);
  });

  test('that a thread loses is a failure of that request, and the next one is read', async (t) => {
    const { there } = await readers();
    const reading = there.read(bytesOf(ODD), CHAT);
    const lost = assert.rejects(reading, /has ended/);
    await there.close();
    await lost;
    t.after(() => there.close());
    assert.equal((await there.read(bytesOf(ODD), CHAT)).messages.length, 3);
  });

  test('behind the end is read here, so that no thread outlives its reader', async () => {
    const { there } = await readers();
    await there.close();
    const body = bytesOf(ODD);
    await there.read(body, CHAT);
    assert.notEqual(body.length, 0);
  });
});
