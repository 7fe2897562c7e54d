import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import {
  assemble,
  finishStream,
  startStream,
  type SentRequest,
} from '../../src/generation/wire/stream-assembler.js';
import type { Finish } from '../../src/model/journal.js';
import { Fault, type FaultType } from '../../src/model/faults.js';
import {
  capture,
  chunksOf,
  recordedResult,
  streamCaptures,
  type Capture,
  type RecordedChunk,
} from './captures.js';

/** Captures that are no usable generation, and what becomes of them. */
const FAULTY: Record<string, { type: FaultType; message: RegExp }> = {
  '006': { type: 'ProtocolError', message: /expected usage\.completion_tokens 4 .* got none/ },
  '007': { type: 'ProtocolError', message: /expected token_ids .*got none/ },
  '010': { type: 'ProtocolError', message: /expected choice 0 only, got 1/ },
  '136': { type: 'GenerationUnavailable', message: /after 10 tokens without a finish reason/ },
  '140': { type: 'GenerationUnavailable', message: /engine aborted the request after 69 tokens/ },
  '146': { type: 'GenerationUnavailable', message: /before its first token/ },
  '148': { type: 'GenerationUnavailable', message: /before its first token/ },
  '151': { type: 'GenerationUnavailable', message: /engine aborted the request after 72 tokens/ },
  '190': { type: 'GenerationUnavailable', message: /after 50 tokens without a finish reason/ },
  '191': { type: 'GenerationUnavailable', message: /before its first token/ },
  '212': { type: 'GenerationUnavailable', message: /after 28 tokens without a finish reason/ },
  '236': { type: 'GenerationUnavailable', message: /after 83 tokens without a finish reason/ },
};

const numberOf = (file: string): string => file.slice(0, 3);

const sentFor = ({ prompt, max_tokens, logprobs }: Capture): SentRequest => ({
  site: { replica: 'http://engine/v1', call: 'completion b/0-0.0.w' },
  prompt_ids: prompt,
  max_tokens,
  logprobs,
  top_logprobs: 0,
});

/** The whole stream through the reducer. */
function run(sent: SentRequest, chunks: readonly unknown[]) {
  const token_ids: number[] = [];
  const logprobs: number[] = [];
  let text = '';
  let finish: Finish | undefined;
  let state = startStream(sent);
  for (const chunk of chunks) {
    const step = assemble(state, chunk);
    state = step.state;
    token_ids.push(...(step.delta?.token_ids ?? []));
    logprobs.push(...(step.delta?.logprobs ?? []));
    text += step.delta?.text ?? '';
    finish ??= step.delta?.finish;
  }
  const end = finishStream(state);
  assert.deepEqual(finish, end, 'the delta that ends the tokens says so');
  return { token_ids, logprobs, text, ...end };
}

function assertFault(action: () => unknown, expected: { type: FaultType; message: RegExp }): void {
  assert.throws(action, (error) => {
    assert.ok(error instanceof Fault, String(error));
    assert.equal(error.type, expected.type, error.message);
    assert.match(error.message, expected.message);
    assert.match(error.message, /^http:\/\/engine\/v1: completion b\/0-0\.0\.w: /);
    assert.equal(error.at, 'http://engine/v1');
    return true;
  });
}

describe('recorded streams', () => {
  const captures = streamCaptures();

  test('are all there', () => {
    assert.ok(captures.length >= 50, `${captures.length} streams`);
    const numbers = new Set(captures.map(({ file }) => numberOf(file)));
    assert.deepEqual(
      Object.keys(FAULTY).filter((number) => !numbers.has(number)),
      [],
    );
  });

  for (const recorded of captures) {
    const faulty = FAULTY[numberOf(recorded.file)];
    if (faulty !== undefined) {
      test(`${recorded.file} is a ${faulty.type}`, () => {
        assertFault(() => run(sentFor(recorded), chunksOf(recorded)), faulty);
      });
      continue;
    }
    test(`${recorded.file} gives the ids, logprobs, text and end of its chunks`, () => {
      const chunks = chunksOf(recorded);
      const result = run(sentFor(recorded), chunks);
      assert.deepEqual(result, recordedResult(chunks));
      assert.ok(result.token_ids.length > 0);
      assert.equal(result.logprobs.length, result.token_ids.length);
    });
  }

  const PAIRS = ['004 001', '011 012', '015 014', '018 017', '022 021', '026 025'];
  for (const pair of PAIRS) {
    const [streamed = '', whole = ''] = pair.split(' ');
    test(`stream ${streamed} has the ids, text and end of the same request unstreamed (${whole})`, () => {
      const recorded = capture(streamed);
      const result = run(sentFor(recorded), chunksOf(recorded));
      const reply = JSON.parse(capture(whole).raw) as RecordedChunk;
      assert.deepEqual(result, recordedResult([reply]));
    });
  }

  test('a stop reason of 0 stays 0 (capture 029)', () => {
    const recorded = capture('029');
    const result = run(sentFor({ ...recorded, max_tokens: 20 }), [JSON.parse(recorded.raw)]);
    assert.deepEqual([result.finish_reason, result.stop_reason], ['stop', 0]);
  });
});

describe('a stream cut into other chunks', () => {
  const whole = streamCaptures().filter(({ file }) => FAULTY[numberOf(file)] === undefined);

  /** The same tokens and text in `count` chunks, cut at any places: chunks may be empty, text may run ahead or lag. */
  function rechunk(chunks: RecordedChunk[], cuts: { ids: number[]; text: number[] }) {
    const all = recordedResult(chunks);
    const count = cuts.ids.length + 1;
    const at = (list: number[], { length }: { length: number }): number[] => [
      0,
      ...list.map((part) => Math.floor(part * length)).sort((a, b) => a - b),
      length,
    ];
    const ids = at(cuts.ids, all.token_ids);
    const text = at(cuts.text.slice(0, count - 1), all.text);
    const usage = chunks.at(-1)?.usage;
    return [
      ...Array.from({ length: count }, (_, i) => ({
        choices: [
          {
            index: 0,
            text: all.text.slice(text[i], text[i + 1] ?? all.text.length),
            token_ids: all.token_ids.slice(ids[i], ids[i + 1]),
            logprobs: { token_logprobs: all.logprobs.slice(ids[i], ids[i + 1]) },
            prompt_token_ids: i === 0 ? chunks[0]!.choices[0]!.prompt_token_ids : null,
            finish_reason: i === count - 1 ? all.finish_reason : null,
            stop_reason: i === count - 1 ? all.stop_reason : null,
          },
        ],
      })),
      ...(usage === undefined ? [] : [{ choices: [], usage }]),
    ];
  }

  test('gives the same result', () => {
    const part = fc.double({ min: 0, max: 1, noNaN: true });
    const cuts = fc.integer({ min: 0, max: 12 }).chain((count) =>
      fc.record({
        ids: fc.array(part, { minLength: count, maxLength: count }),
        text: fc.array(part, { minLength: count, maxLength: count }),
      }),
    );
    fc.assert(
      fc.property(fc.constantFrom(...whole), cuts, (recorded, where) => {
        const sent = sentFor(recorded);
        const chunks = chunksOf(recorded);
        assert.deepEqual(run(sent, rechunk(chunks, where)), run(sent, chunks));
      }),
      { numRuns: 300 },
    );
  });
});
