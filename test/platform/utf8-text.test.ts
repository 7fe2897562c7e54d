import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { Readable } from 'node:stream';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { readEvents } from '../../src/platform/http/event-stream.js';
import { wholeText } from '../../src/platform/http/body.js';
import { textsOf } from '../../src/platform/lines.js';
import { readText, utf8Problem, utf8Text } from '../../src/platform/utf8-text.js';
import { loadConfig } from '../../src/workers/config.js';
import { loadPrompt } from '../../gym/rows/prompt.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';

const MARK = [0xef, 0xbb, 0xbf];
const BOUNDS = { max_event_bytes: 10_000, max_bytes: 10_000 };
const strict = new TextDecoder('utf-8', { fatal: true });

const isText = (bytes: Buffer): boolean => {
  try {
    strict.decode(bytes);
    return true;
  } catch {
    return false;
  }
};
const bytesArbitrary = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }).map((text) => Buffer.from(text)),
      fc
        .constantFrom(
          [0xe9],
          [0xc0, 0x80],
          [0xed, 0xa0, 0x80],
          [0xf0, 0x9f],
          [0xef, 0xbf, 0xbd],
          MARK,
        )
        .map((bytes) => Buffer.from(bytes)),
    ),
    { maxLength: 5 },
  )
  .map((parts) => Buffer.concat(parts));

async function collect<T>(from: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const one of from) all.push(one);
  return all;
}

async function eventsIn(body: Readable): Promise<string[]> {
  const events: string[] = [];
  await readEvents(body, { ...BOUNDS, take: (data) => events.push(data) });
  return events;
}

describe('text of others', () => {
  test('is refused at its first byte that is not UTF-8, and is itself otherwise', () => {
    fc.assert(
      fc.property(bytesArbitrary, (bytes) => {
        const problem = utf8Problem(bytes);
        assert.equal(problem === null, isText(bytes));
        if (problem === null) {
          assert.equal(utf8Text(bytes), strict.decode(bytes));
          return;
        }
        assert.throws(() => utf8Text(bytes), { message: problem });
        const at = Number(/at byte (\d+)$/.exec(problem)?.[1]);
        assert.ok(isText(bytes.subarray(0, at)));
        for (let size = 1; size <= 4; size++) assert.ok(!isText(bytes.subarray(at, at + size)));
      }),
    );
  });

  test('in a file is refused by its line and byte, and a byte order mark at its beginning is skipped', async (t) => {
    const directory = await makeTemporaryDirectory('utf8-text');
    t.after(directory.remove);
    const file = path.join(directory.path, 'samples.jsonl');
    await writeFile(file, Buffer.from([...MARK, ...Buffer.from('{"a":"é"}\r\n{"b":1}\n')]));
    assert.deepEqual(await collect(textsOf(file)), ['{"a":"é"}', '{"b":1}']);
    await writeFile(
      file,
      Buffer.concat([Buffer.from('{}\n{"a":"'), Buffer.from([0xe9]), Buffer.from('"}\n')]),
    );
    await assert.rejects(collect(textsOf(file)), {
      message: 'line 2 of samples.jsonl: expected UTF-8, got 0xe9 at byte 6 of the line',
    });
    await assert.rejects(readText(file), {
      message: 'samples.jsonl: expected UTF-8, got 0xe9 at byte 9; save it as UTF-8',
    });
    await writeFile(file, Buffer.from([...MARK, 0x7b, 0x7d]));
    assert.equal(await readText(file), '{}');
  });

  test('in temporal.yaml and in a prompt file is refused, and a byte order mark is skipped', async (t) => {
    const { path: cwd, remove } = await makeTemporaryDirectory('yaml-text');
    t.after(remove);
    const file = path.join(cwd, 'temporal.yaml');
    await writeFile(file, Buffer.from([...Buffer.from('store: { root: a'), 0xe9]));
    const wrong = /temporal\.yaml: expected UTF-8, got 0xe9 at byte 16; save it as UTF-8/;
    await assert.rejects(loadConfig(file), wrong);
    const places = { cwd, env: {} };
    await assert.rejects(loadPrompt(file, places), wrong);
    await writeFile(file, Buffer.from([...MARK, ...Buffer.from('user: é')]));
    assert.deepEqual(await loadPrompt(file, places), { user: 'é', system: null });
    await assert.rejects(loadConfig(file), /user: unknown field/);
  });

  test('in an answer over HTTP is refused, and a byte order mark is skipped', async () => {
    const read = (bytes: number[]): Promise<string> =>
      wholeText(Readable.from([Buffer.from(bytes)]), {
        told: NaN,
        max_bytes: 100,
        share: undefined,
        pace: undefined,
        controller: new AbortController(),
      });
    assert.equal(await read([...MARK, 0x31]), '1');
    await assert.rejects(read([0x31, 0xe9]), {
      message: 'answered with bytes that are no text: expected UTF-8, got 0xe9 at byte 1',
    });
  });

  test('in a stream of events may be cut anywhere, also inside a character or the byte order mark', async () => {
    const bytes = Buffer.from([...MARK, ...Buffer.from('data: {"text":"é😀"}\n\ndata: x\n\n')]);
    for (let size = 1; size < bytes.length; size++) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, at) =>
        bytes.subarray(at * size, (at + 1) * size),
      );
      const events = await eventsIn(Readable.from(chunks));
      assert.deepEqual(events, ['{"text":"é😀"}', 'x']);
    }
    const wrong = Readable.from([Buffer.from('data: '), Buffer.from([0xe9]), Buffer.from('\n\n')]);
    await assert.rejects(eventsIn(wrong), {
      message: 'answered with an event that is no text: expected UTF-8, got 0xe9 at byte 0',
    });
  });
});
