import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { withoutPassages } from '../../../src/platform/http/skipped.js';

const PASSAGES = [
  { begin: '"a":"', end: '"' },
  { begin: '"ab":[[', end: ']]' },
];

describe('passages that nobody reads', () => {
  test('are left out, their marks not, wherever the text is cut', () => {
    const part = fc.constantFrom(
      ...['"a":"xyz"', '"a":""', '"ab":[[1],[2]]', '"ab":[[]]', '"', '"a', 'é', '\n\n', ':[', ']'],
    );
    const sizes = fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 1 });
    fc.assert(
      fc.property(fc.array(part), sizes, (parts, sizes) => {
        const take = withoutPassages(PASSAGES);
        const bytes = Buffer.from(`${parts.join('')}\n`);
        const got: Buffer[] = [];
        for (let at = 0, i = 0; at < bytes.length; i++) {
          const end = at + (sizes[i % sizes.length] ?? 1);
          got.push(take(bytes.subarray(at, end)));
          at = end;
        }
        const expected = parts.map((one) => one.replace('xyz', '').replace('1],[2', ''));
        assert.equal(Buffer.concat(got).toString(), `${expected.join('')}\n`);
      }),
    );
  });

  test('are never held: one without end costs nothing', () => {
    const take = withoutPassages(PASSAGES);
    take(Buffer.from('{"ab":[['));
    const piece = Buffer.alloc(2 ** 20, '1,');
    const before = process.memoryUsage().rss;
    for (let i = 0; i < 500; i++) assert.equal(take(piece).length, 0);
    assert.ok(process.memoryUsage().rss - before < 64 * 2 ** 20);
    assert.equal(take(Buffer.from(']]}')).toString(), ']]}');
  });
});
