import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { codeOf, formatResult, observationOf } from '../../../src/environments/code/format.js';
import type { Outcome } from '../../../src/sandbox/snippets/outcomes.js';
import { limitsOf } from '../../../src/environments/code/settings.js';
import { codeSettings } from './code-bed.js';
import { processorTime_ms } from '../../harness/processor-time.js';

const settings = codeSettings();
const limits = limitsOf(settings);

function observe(message: string, outcomes: Outcome[]): { content: string; evaluated: boolean } {
  const code = codeOf(message, settings);
  assert.ok(code !== null);
  return observationOf({ outcomes }, { code, settings, limits });
}

const ok = (fields: Partial<Extract<Outcome, { status: 'ok' }>> = {}): Outcome => ({
  ...{ status: 'ok', value: null, value_cut: 0, evaluated: false, stdout: '', stdout_cut: 0 },
  ...fields,
});

test('a message has as many blocks as it has pairs of tags; upstream takes everything between the outermost', () => {
  const message = 'a <code>1</code> b <code>2</code>\n';
  assert.deepEqual(codeOf(message, { semantics: 'standard' }), {
    blocks: ['1', '2'],
    lookahead: '\n',
  });
  assert.deepEqual(codeOf(message, { semantics: 'nemo-rl' }), {
    blocks: ['1</code> b <code>2'],
    lookahead: '\n',
  });
  assert.equal(codeOf('<code>1', { semantics: 'standard' }), null);
});

test('tags are paired as upstream pairs them, in one pass', () => {
  const patterns = {
    standard: /<code>(.*?)<\/code>/gs,
    'nemo-rl': /<code>(.*)<\/code>/gs,
  } as const;
  const part = fc.constantFrom(
    '<code>',
    '</code>',
    '<',
    'code>',
    '/code>',
    'a',
    '\n',
    '\r',
    '\u2028',
  );
  const message = fc.array(part, { maxLength: 12 }).map((parts) => parts.join(''));
  const kind = fc.constantFrom('standard' as const, 'nemo-rl' as const);
  const property = fc.property(message, kind, (text, semantics) => {
    const blocks = [...text.matchAll(patterns[semantics])].map(([, block]) => block);
    assert.deepEqual(codeOf(text, { semantics })?.blocks ?? [], blocks);
  });
  fc.assert(property, { numRuns: 2000 });
  for (const semantics of ['standard', 'nemo-rl'] as const) {
    const began = processorTime_ms();
    assert.equal(codeOf('<code>'.repeat(100_000), { semantics }), null);
    assert.ok(processorTime_ms() - began < 1000);
  }
});

test('output comes before the value, and empty output is omitted', () => {
  const table: [string, Outcome, string][] = [
    ['<code>print(1)</code>', ok({ stdout: '1\n' }), '<result>1</result>'],
    ['<code>f()</code>', ok({ stdout: 'a\n', value: '2' }), '\n\n<result>\na\n2\n</result>'],
    ['<code>x = 1</code>', ok(), ''],
    ['<code>y</code>', ok({ value: `''` }), `<result>''</result>`],
    ['<code>y</code>', ok({ stdout: 'ab', stdout_cut: 7 }), '<result>ab… [7 more bytes]</result>'],
    [
      '<code>y</code>',
      ok({ value: 'ab', value_cut: 7 }),
      '<result>ab… [7 more characters]</result>',
    ],
  ];
  for (const [message, outcome, expected] of table) {
    assert.equal(observe(message, [outcome]).content, expected);
  }
});

test('two blocks answer one after the other; the rollout ends only when the last has a value', () => {
  const message = '<code>1</code><code>x = 2</code>';
  const value = ok({ value: '1', evaluated: true });
  assert.deepEqual(observe(message, [value, ok()]), {
    content: '<result>1</result>',
    evaluated: false,
  });
  assert.deepEqual(observe(message, [value, value]), {
    content: '<result>1</result>\n<result>1</result>',
    evaluated: true,
  });
  assert.equal(observe(message, [value]).evaluated, false, 'the second never ran');
});

test('code that was ended reads as an exception with the limit that it broke', () => {
  const code = { blocks: ['x'], lookahead: '' };
  const said = (killed: 'memory' | 'cpu' | 'disk'): string =>
    observationOf({ killed }, { code, settings, limits }).content;
  assert.match(said('memory'), /^<result>MemoryError\('.* more than 512 MiB of memory; /);
  assert.match(said('cpu'), /^<result>TimeoutError\('.* more than 10 s of processor time; /);
  assert.match(said('disk'), /^<result>OSError\('.* more than 64 MiB of files; /);
});

test('a result can be read back from its observation, whatever it holds', () => {
  const texts = fc.string({ unit: 'grapheme' });
  fc.assert(
    fc.property(texts, texts, (text, code) => {
      const shown = formatResult({ text, code, lookahead: '' });
      const isLong = text.includes('\n') || code.includes('\n');
      const [before, behind] = isLong
        ? ['\n\n<result>\n', '\n</result>']
        : ['<result>', '</result>'];
      assert.ok(shown.startsWith(before) && shown.endsWith(behind));
      assert.equal(shown.slice(before.length, shown.length - behind.length), text);
      assert.equal(formatResult({ text, code, lookahead: 'no prefix' }), shown);
      assert.equal(formatResult({ text, code, lookahead: before }), shown.slice(before.length));
    }),
  );
});
