import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import { parseLine } from '../../src/model/journal.js';
import { author, wholeTurn } from '../fakes/journal-lines.js';
import { plainly } from '../fakes/plainly.js';

const a = author('a');
const lines: JournalLine[] = [
  a.claim({ reopen: true }),
  a.start({ stop_strings: null }),
  ...wholeTurn(a, { rewards: { x: 1 }, metadata: { deep: [1, { k: null }] } }),
  a.fault({ replica: 'http://replica/v1' }),
  a.end({ stop_reason: 'failed', failure: { type: 'T', message: 'm', turn: 1 } }),
];

describe('parseLine', () => {
  for (const line of lines) {
    test(`a ${line.kind} line reads back as it was written`, () => {
      assert.deepEqual(plainly(parseLine(JSON.stringify(line))), line);
    });

    test(`a ${line.kind} line torn anywhere is no line`, () => {
      const text = JSON.stringify(line);
      for (let end = 0; end < text.length; end++)
        assert.equal(parseLine(text.slice(0, end)), null, text.slice(0, end));
    });

    test(`a ${line.kind} line behind another's torn beginning is no line`, () => {
      assert.equal(parseLine(`{"kind":"chunk","wr${JSON.stringify(line)}`), null);
    });
  }

  test('an empty line and other JSON are no lines', () => {
    for (const text of ['', ' ', 'null', '1', '[]', '{}', '{"kind":"compaction"}'])
      assert.equal(parseLine(text), null, text);
  });

  test('a line of a kind that a later version has added is refused by its name, never passed over', () => {
    assert.throws(() => parseLine(JSON.stringify({ ...a.claim(), kind: 'compaction' })), {
      type: 'StoreFault',
      message:
        'a line of a journal: expected a kind that this version knows, got "compaction": a later version wrote it, so use that one',
    });
  });

  test('a line that lacks a field, or has one of another type, is no line', () => {
    for (const token_ids of [['1'], [1.5], [null], [1e300], { length: 0 }, '1'])
      assert.equal(parseLine(JSON.stringify({ ...a.chunk(), token_ids })), null);
    for (const logprobs of [['-1'], [Number.NaN], [null], {}, undefined])
      assert.equal(parseLine(JSON.stringify({ ...a.chunk(), logprobs })), null);
    assert.equal(parseLine(JSON.stringify({ ...a.chunk(), offset: undefined })), null);
    assert.equal(parseLine(JSON.stringify({ ...a.observation(), reward: Number.NaN })), null);
  });

  test('a reward whose sums could be infinite is none: JSON cannot hold them', () => {
    for (const reward of [1e31, -1e39, Number.POSITIVE_INFINITY]) {
      assert.equal(parseLine(JSON.stringify(a.observation({ reward }))), null);
      assert.equal(parseLine(JSON.stringify(a.observation({ rewards: { x: reward } }))), null);
    }
    const line = a.observation({ reward: -1e30, rewards: { x: 1e30 } });
    assert.deepEqual(plainly(parseLine(JSON.stringify(line))), line);
  });

  test('a field that a later version may add does not spoil a line', () => {
    assert.deepEqual(parseLine(JSON.stringify({ ...a.claim(), host: 'x' })), a.claim());
  });
});
