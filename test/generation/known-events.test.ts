/** What most events of a stream are read by, against the reader of JSON that reads all others. */
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import type { Delta } from '../../src/generation/generation-service.js';
import type { WireName } from '../../src/generation/vllm/known-events.js';
import { readCompletion } from '../../src/generation/vllm/completion-stream.js';
import {
  assemble,
  assembleKnown,
  startStream,
} from '../../src/generation/wire/stream-assembler.js';
import type { StreamBounds } from '../../src/platform/http/event-stream.js';
import { processorTime_ms } from '../harness/processor-time.js';
import { capture, counted, streamCaptures } from './captures.js';

const WIDE: StreamBounds = { max_event_bytes: 2 ** 20, max_bytes: 2 ** 24 };
const SENT = {
  site: { replica: 'http://replica/v1', call: 'completion r' },
  prompt_ids: [42, 71, 78, 365, 320, 274, 482],
  max_tokens: 100_000,
  logprobs: true,
  top_logprobs: 0,
};

interface Read {
  deltas: Delta[];
  state: unknown;
  error: string | null;
}

/** Everything that a stream says, and how many of its events were known. */
async function read(
  chunks: readonly Buffer[],
  { wire, knows, bounds = WIDE }: { wire: WireName; knows: boolean; bounds?: StreamBounds },
): Promise<{ read: Read; known: number }> {
  const body = Readable.from(chunks, { objectMode: true });
  const deltas: Delta[] = [];
  let state = startStream(SENT);
  let known = 0;
  let error: string | null = null;
  const take = (step: ReturnType<typeof assemble>): void => {
    state = step.state;
    if (step.delta !== null) deltas.push(step.delta);
  };
  try {
    await readCompletion(body, {
      wire,
      bounds,
      // Those who ask for the likeliest ids read every event as JSON.
      tops: !knows,
      arrivals: {
        tokens: (tokens) => {
          known += 1;
          take(assembleKnown(state, tokens));
        },
        chunk: (chunk) => {
          take(assemble(state, chunk));
        },
      },
    });
  } catch (thrown) {
    error = String(thrown);
  }
  return { read: { deltas, state, error }, known };
}

async function assertSame(
  chunks: readonly Buffer[],
  how: { wire: WireName; bounds?: StreamBounds },
): Promise<{ read: Read; known: number }> {
  const fast = await read(chunks, { ...how, knows: true });
  const plain = await read(chunks, { ...how, knows: false });
  assert.equal(plain.known, 0);
  assert.deepEqual(fast.read, plain.read);
  return fast;
}

/** Pieces of these sizes, repeated. */
function cut(bytes: Buffer, sizes: readonly number[]): Buffer[] {
  const chunks: Buffer[] = [];
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? bytes.length;
    chunks.push(bytes.subarray(at, at + size));
    at += size;
  }
  return chunks;
}

const generated = ['117', '189', '243'].map((number) => capture(number));
const recorded = [
  ...[...streamCaptures(), ...streamCaptures('0.33.0')].map(({ file, raw }) => ({
    file,
    raw,
    wire: 'completions' as const,
  })),
  ...generated.map(({ file, raw }) => ({ file, raw, wire: 'generate' as const })),
];

describe('an event that is known says what it says as JSON', () => {
  test('in every recorded stream, whole or cut anywhere', async () => {
    for (const { file, raw, wire } of recorded) {
      const bytes = Buffer.from(raw);
      for (const sizes of [[bytes.length], [1], [350, 20, 700]])
        await assertSame(cut(bytes, sizes), { wire }).catch((error: unknown) =>
          assert.fail(`${file}: ${String(error)}`),
        );
    }
  });

  for (const { number, wire, version } of [
    { number: '133', wire: 'completions', version: '0.32.0' },
    { number: '01', wire: 'completions', version: '0.33.0' },
    { number: '189', wire: 'generate', version: '0.32.0' },
  ] as const)
    for (const [what, rawOf] of [
      ['recorded', (raw: string) => raw],
      ['counted', counted],
    ] as const)
      test(`and they are nearly all of a ${what} stream of ${wire} of vLLM ${version}`, async () => {
        const events = rawOf(capture(number, version).raw)
          .split('\n\n')
          .filter((event) => event !== '');
        const { known, read } = await assertSame(
          events.map((event) => Buffer.from(`${event}\n\n`)),
          { wire },
        );
        assert.equal(read.error, null);
        assert.ok(events.length > 50 && known >= events.length - 4, `${known} of ${events.length}`);
      });

  test('also with several tokens', async () => {
    const event = (ids: number[]): Buffer =>
      Buffer.from(
        `data: ${JSON.stringify({
          id: 'x',
          object: 'text_completion',
          created: 1,
          model: 'tiny',
          choices: [
            {
              index: 0,
              text: 'aé"\n',
              logprobs: {
                text_offset: ids,
                token_logprobs: ids.map((id) => -id / 7),
                tokens: ids.map(String),
                top_logprobs: ids.map((id) => ({ [id]: -id / 7 })),
              },
              finish_reason: null,
              stop_reason: null,
              prompt_token_ids: null,
              token_ids: ids,
            },
          ],
        })}\n\n`,
      );
    const { read, known } = await assertSame([event([]), event([5]), event([1, 2, 3, 4])], {
      wire: 'completions',
    });
    assert.equal(known, 3);
    assert.deepEqual(
      read.deltas.map(({ token_ids }) => token_ids),
      [[], [5], [1, 2, 3, 4]],
    );
    // Long ones are read as JSON: a repeat over so much text would overflow the stack.
    const ids = Array.from({ length: 300_000 }, (_, i) => i);
    assert.equal((await assertSame([event([7]), event(ids)], { wire: 'completions' })).known, 1);
  });
});

/** What stands in place of a number or a string of an event. */
const VALUES = [
  '0',
  '-0',
  '01',
  '+1',
  '1.0',
  '-1.',
  '.5',
  '1e400',
  '-1e-400',
  '-9999',
  '-9998.5',
  '1e-7',
  '0.5',
  'NaN',
  'null',
  'true',
  '2147483647',
  '2147483648',
  '4294967296',
  '99999999999',
  '""',
  '"\\u0041"',
  '"\\ud83d"',
  '"\\ud83d\\ude00"',
  '"\\x"',
  '"\\/\\b\\f"',
  '"é漢😀"',
  '"\u2028"',
  '"\u007f"',
  '"\u0001"',
  '[]',
  '[1,]',
  '[1 ,2]',
  '{}',
];
/** Bytes that mean something in JSON, in UTF-8 or in an event. */
const BYTES = [
  ...Buffer.from('"\\,:[]{}0123456789-+.eEntu \t\n\r\0'),
  0x1f,
  0x7f,
  0x80,
  0xc3,
  0xa9,
  0xed,
  0xa0,
  0xf0,
  0xff,
];

type Edit = (event: Buffer) => Buffer;
const edits: fc.Arbitrary<Edit> = fc.oneof(
  fc
    .record({ at: fc.nat(), byte: fc.constantFrom(...BYTES), over: fc.boolean() })
    .map(({ at, byte, over }): Edit => (event) => {
      const place = at % event.length;
      return Buffer.concat([
        event.subarray(0, place),
        Buffer.from([byte]),
        event.subarray(place + (over ? 1 : 0)),
      ]);
    }),
  fc
    .record({ at: fc.nat(), length: fc.integer({ min: 1, max: 60 }), twice: fc.boolean() })
    .map(({ at, length, twice }): Edit => (event) => {
      const place = at % event.length;
      const end = twice ? place : place + length;
      return Buffer.concat([event.subarray(0, place + (twice ? length : 0)), event.subarray(end)]);
    }),
  fc
    .record({ nth: fc.nat(), value: fc.constantFrom(...VALUES) })
    .map(({ nth, value }): Edit => (event) => {
      const text = event.toString();
      const found = [...text.matchAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|null/g)];
      const one = found[nth % found.length];
      if (one === undefined) return event;
      return Buffer.from(text.slice(0, one.index) + value + text.slice(one.index + one[0].length));
    }),
);

describe('an event that is nearly known', () => {
  for (const wire of ['completions', 'generate'] as const)
    test(`is read, or refused, as if no event of ${wire} were known`, async () => {
      const known = recorded
        .filter((one) => one.wire === wire)
        .flatMap(({ raw }) => raw.split('\n\n').filter((event) => event.startsWith('data: {')));
      const stream = fc.array(
        fc.record({
          event: fc.constantFrom(...known).map((event) => Buffer.from(`${event}\n\n`)),
          edits: fc.array(edits, { maxLength: 2 }),
        }),
        { minLength: 1, maxLength: 4 },
      );
      const bounds = fc.record({
        max_event_bytes: fc.constantFrom(500, 650, 700, 2 ** 20),
        max_bytes: fc.constantFrom(900, 2 ** 24),
      });
      const sizes = fc.array(fc.integer({ min: 1, max: 900 }), { minLength: 1, maxLength: 5 });
      await fc.assert(
        fc.asyncProperty(
          fc.record({ events: stream, bounds, sizes }),
          async ({ events, bounds, sizes }) => {
            const bytes = events.map(({ event, edits }) =>
              edits.reduce<Buffer>((now, edit) => edit(now), event),
            );
            await assertSame(bytes, { wire, bounds });
            await assertSame(cut(Buffer.concat(bytes), sizes), { wire, bounds });
          },
        ),
        { numRuns: 1500 },
      );
    });

  test('costs no more than its bytes, whatever it repeats', async () => {
    const event = capture('133').raw.split('\n\n')[5] ?? '';
    const began = processorTime_ms();
    for (const long of [
      '"a",'.repeat(12_000),
      '\\u0041'.repeat(9000),
      '1,'.repeat(30_000),
      '{"":1},'.repeat(8000),
    ])
      for (const place of ['"tokens":[', '"text":"', '"token_ids":[', '"top_logprobs":[']) {
        const bytes = Buffer.from(`${event.replace(place, () => place + long)}\n\n`);
        await assertSame([bytes], { wire: 'completions' });
      }
    assert.ok(processorTime_ms() - began < 4000, `${processorTime_ms() - began} ms`);
  });
});
