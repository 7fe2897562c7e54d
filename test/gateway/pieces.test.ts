/** Streams of one answer have the same events, whenever they began and however its tokens came. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import type { Reading } from '../../src/gateway/deliver/pieces.js';
import { BEGINNING, piecesFrom } from '../../src/gateway/deliver/pieces.js';
import { callId, readAnswer, saidIn } from '../../src/model/calls/parsers/read-answer.js';

const PARSERS = { tool_parser: 'hermes', reasoning_parser: 'qwen3' } as const;
const CALL = '<tool_call>\n{"name": "run", "arguments": {"command": "ls"}}\n</tool_call>';
const text = fc
  .array(
    fc.constantFrom(
      '<think>\n',
      '</think>\n\n',
      'words of it ',
      'é🧩🧩',
      '🧩'.repeat(20),
      CALL,
      '\n',
      ' ',
      'x'.repeat(40),
      '<tool_call>no JSON</tool_call>',
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

const growing = (part: string): Reading => {
  const { calls, reasoning = '', ...read } = readAnswer(part, { ...PARSERS, ended: false });
  return {
    ...read,
    reasoning,
    calls: calls.map((call, k) => ({ id: callId(1, k), ...call })),
    ended: false,
  };
};
/** As the journal has it. */
const whole = (all: string): Reading => {
  const { tool_calls: calls, reasoning = '', ...read } = saidIn(all, { ...PARSERS, turn: 1 });
  return { ...read, reasoning, calls, ended: true };
};

test('pieces are a function of the answer, wherever its text is cut', () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat(300), { maxLength: 10 }), (all, cuts) => {
      const cut = cuts.filter((at) => at < all.length).sort((a, b) => a - b);
      let place = BEGINNING;
      const pieces: object[] = [];
      for (const reading of [...cut.map((at) => growing(all.slice(0, at))), whole(all)]) {
        const { news, to } = piecesFrom(reading, place);
        pieces.push(...news);
        place = to;
      }
      const { news } = piecesFrom(whole(all), BEGINNING);
      assert.deepEqual(pieces, news);
      const { content, reasoning, calls } = whole(all);
      assert.equal(news.map((one) => one.content).join(''), content);
      assert.equal(news.map((one) => one.reasoning ?? '').join(''), reasoning);
      assert.deepEqual(
        news.flatMap(({ tool_calls }) => tool_calls.calls),
        calls,
      );
      for (const { content: piece } of news) assert.ok(piece.isWellFormed());
    }),
    { numRuns: 3000 },
  );
});
