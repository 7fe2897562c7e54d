import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Readable } from 'node:stream';
import fc from 'fast-check';
import { readEvents, type StreamBounds } from '../../../src/platform/http/event-stream.js';
import { HttpFailure } from '../../../src/platform/http/failure.js';
import { processorTime_ms } from '../../harness/processor-time.js';

const BOUNDS: StreamBounds = { max_event_bytes: 2 ** 20, max_bytes: 2 ** 24 };

async function eventsIn(chunks: Iterable<Buffer | string>, bounds = BOUNDS): Promise<string[]> {
  const body = Readable.from(
    Array.from(chunks, (chunk) => Buffer.from(chunk)),
    { objectMode: true },
  );
  const events: string[] = [];
  await readEvents(body, { ...bounds, take: (data) => events.push(data) });
  return events;
}

describe('events', () => {
  test('that are almost nothing but empty lists are refused: parsed, they take many times their bytes', async () => {
    const event = (lists: number): string => `data: [${Array(lists).fill('[]').join(',')}]\n\n`;
    const bounds = { max_event_bytes: 2 ** 24, max_bytes: 2 ** 24 };
    assert.equal((await eventsIn([event(200_000)], bounds)).length, 1);
    await assert.rejects(eventsIn([event(500_000)], bounds), /an event whose shape is refused/);
  });

  test('are the same however the bytes are cut and whichever line ends are used', async () => {
    const line = fc.constantFrom(
      'data: {"a":1}',
      'data:é漢',
      'event: x',
      'data',
      'data: ',
      'dataset: 1',
      ': comment',
      'id: 7',
      '',
    );
    const property = fc.asyncProperty(
      fc.record({
        lines: fc.array(line, { maxLength: 30 }),
        end: fc.constantFrom('\n', '\r\n', '\r'),
        sizes: fc.array(fc.nat(9), { minLength: 1, maxLength: 40 }),
      }),
      async ({ lines, end, sizes }) => {
        const bytes = Buffer.from(lines.map((one) => one + end).join(''));
        const chunks: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const size = 1 + (sizes[i % sizes.length] ?? 0);
          chunks.push(bytes.subarray(at, at + size));
          at += size;
        }
        const expected: string[] = [];
        let data: string[] = [];
        for (const one of lines) {
          if (one !== '') {
            const found = /^data(?:: ?(.*))?$/.exec(one);
            if (found !== null) data.push(found[1] ?? '');
            continue;
          }
          if (data.length > 0) expected.push(data.join('\n'));
          data = [];
        }
        assert.deepEqual(await eventsIn(chunks), expected);
      },
    );
    await fc.assert(property, { numRuns: 300 });
  });

  test('end with [DONE], whatever is behind it', async () => {
    const endless = (function* () {
      yield 'data: 1\n\nid: 7\ndata: [DONE]\n\ndata: 2\n\n';
      for (;;) yield ': more\n\n'.repeat(1000);
    })();
    const body = Readable.from(endless, { objectMode: true }).map((text: string) =>
      Buffer.from(text),
    );
    const events: string[] = [];
    await readEvents(body, { ...BOUNDS, take: (data) => events.push(data) });
    assert.deepEqual(events, ['1']);
  });
});

describe('a stream is refused', () => {
  const refused = async (
    chunk: string,
    bounds: Partial<StreamBounds>,
  ): Promise<[string, number]> => {
    let given = 0;
    const endless = (function* () {
      for (;;) {
        given += chunk.length;
        yield Buffer.from(chunk);
      }
    })();
    const body = Readable.from(endless, { objectMode: true });
    const began = processorTime_ms();
    try {
      await readEvents(body, { ...BOUNDS, ...bounds, take: () => undefined });
    } catch (error) {
      assert.ok(error instanceof HttpFailure && error.kind === 'too_large', String(error));
      assert.ok(processorTime_ms() - began < 4000, 'it took too long to notice');
      return [error.message, given];
    }
    return assert.fail('an endless stream has ended');
  };

  test('for a line that does not end, after as many bytes as an event may have', async () => {
    const [message, given] = await refused('x'.repeat(60_000), {});
    assert.equal(message, 'answered with an event of more than 1048576 bytes');
    assert.ok(given < 3 * 2 ** 20, `${given} bytes`);
  });

  test('for an event of lines without number, which cost more than their bytes', async () => {
    const [, given] = await refused('data\n'.repeat(1000), {});
    assert.ok(given < 2 ** 17, `${given} bytes`);
  });

  test('for comments without end, each and all', async () => {
    const [message] = await refused(': keep-alive\n\n'.repeat(1000), {});
    assert.equal(message, 'answered with a stream of more than 16777216 bytes');
    await refused(': keep-alive\n'.repeat(1000), {});
  });

  test('for events without end', async () => {
    await refused('data: {}\n\n'.repeat(1000), { max_bytes: 2 ** 20 });
  });
});
