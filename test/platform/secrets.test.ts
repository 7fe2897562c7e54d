import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { describeError, shortened } from '../../src/platform/errors.js';
import {
  createSecrets,
  keepSecret,
  readSecret,
  withoutSecrets,
} from '../../src/platform/secrets.js';
import { processorTime_ms } from '../harness/processor-time.js';

/** Printable ASCII, as keys are. */
const keys = fc
  .array(fc.integer({ min: 0x21, max: 0x7e }), { minLength: 8, maxLength: 60 })
  .map((codes) => String.fromCharCode(...codes));

const html = (text: string): string =>
  text
    .replaceAll('&', '&amp;')
    .replaceAll('<', '&lt;')
    .replaceAll('>', '&gt;')
    .replaceAll('"', '&quot;')
    .replaceAll("'", '&#x27;');

/** How services write what they were sent. */
const FORMS: Record<string, (text: string) => string> = {
  'as it is': (text) => text,
  'in JSON': JSON.stringify,
  'in JSON in JSON': (text) => JSON.stringify(JSON.stringify(text)),
  'in JSON with slashes escaped': (text) => JSON.stringify(text).replaceAll('/', '\\/'),
  'in JSON with its punctuation as \\u': (text) =>
    text.replaceAll(
      /[^A-Za-z0-9]/g,
      (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ),
  'in a URL': encodeURIComponent,
  'in a URL in a URL': (text) => encodeURIComponent(encodeURIComponent(text)),
  'in a URL, in lower case': (text) =>
    encodeURIComponent(text).replaceAll(/%[0-9A-F]{2}/g, (one) => one.toLowerCase()),
  'in HTML': html,
};
for (const before of ['', 'u', 'me', 'me:', 'user:']) {
  for (const encoding of ['base64', 'base64url'] as const) {
    FORMS[`in ${encoding} behind ${before.length} characters`] = (text) =>
      Buffer.from(`${before}${text}, and more`).toString(encoding);
  }
}

describe('a secret of this process', () => {
  for (const [form, write] of Object.entries(FORMS)) {
    test(`is removed ${form}`, () => {
      fc.assert(
        fc.property(keys, (key) => {
          const secrets = createSecrets();
          secrets.keep(key);
          const echoed = secrets.removedFrom(`{"headers": "Bearer ${write(key)} end"}`);
          assert.ok(!echoed.includes(write(key)), echoed);
          assert.ok(echoed.includes('[secret]'), echoed);
          assert.ok(echoed.startsWith('{"headers": "Bearer '), 'what stands before it stays');
        }),
        { numRuns: 50 },
      );
    });
  }

  test('leaves JSON that held it readable', () => {
    const secrets = createSecrets();
    secrets.keep('a/b"c\\d+e=f0');
    const text = JSON.stringify({ echo: ['a/b"c\\d+e=f0', 'x'] });
    assert.deepEqual(JSON.parse(secrets.removedFrom(text)), { echo: ['[secret]', 'x'] });
  });

  test('is removed before a text is shortened, and from what describes an error and its causes', () => {
    keepSecret('sk-0123456789abcdef');
    assert.equal(shortened(`key sk-0123456789abcdef`, 10), 'key [secre…');
    const cause = new Error('401: Bearer sk-0123456789abcdef');
    assert.equal(describeError(new Error('no', { cause })), 'no: 401: Bearer [secret]');
  });

  test('is not begun by the end of a text that was cut', () => {
    const secrets = createSecrets();
    secrets.keep('sk-0123456789abcdef');
    const whole = `${'x'.repeat(5000)} sk-0123456789abcdef`;
    for (let end = 5000; end < whole.length; end++) {
      const text = secrets.removedFromCut(whole.slice(0, end));
      assert.ok(text.startsWith('xxx') && !text.includes('sk-'), `${end}: …${text.slice(-20)}`);
    }
  });

  test('costs next to nothing where it is not, whatever the text', () => {
    const secrets = createSecrets();
    secrets.keep('sk-0123456789abcdef');
    secrets.keep('--/++"\\\\\\\\\\\\');
    const texts = ['\\', '%25', '&#0', 's', 'sk-', '\\u00', '-', '/', 'Zm9v'];
    for (const part of texts) {
      const text = part.repeat(2 ** 20 / part.length);
      const began = processorTime_ms();
      assert.equal(secrets.removedFrom(text), text);
      const ms = processorTime_ms() - began;
      assert.ok(ms < 5000, `a million characters of ${part} took ${ms} ms`);
    }
  });
});

describe('a key that the settings name', () => {
  const read = (value: string | undefined): string =>
    readSecret('KEY', { env: (name) => (name === 'KEY' ? value : undefined), setting: 'a.b' });

  test('is learnt where it is read', () => {
    assert.equal(read('learnt-where-it-is-read'), 'learnt-where-it-is-read');
    assert.equal(withoutSecrets('(learnt-where-it-is-read)'), '([secret])');
  });

  test('is refused where it cannot be kept, and not repeated', () => {
    const cases: [string | undefined, RegExp][] = [
      [
        undefined,
        /^Error: a\.b: expected the environment variable KEY to hold the key, it is not set$/,
      ],
      ['', /it is not set$/],
      ['abc1234', /of at least 8 characters, got 7: .* leave a\.b out$/],
      ['01234567\n', /got one with spaces, line ends or other unprintable characters$/],
      ['0123 4567', /unprintable characters$/],
    ];
    for (const [value, says] of cases) {
      assert.throws(
        () => read(value),
        (error) => {
          assert.match(String(error), says);
          assert.ok(value === undefined || value === '' || !String(error).includes(value));
          return true;
        },
      );
    }
  });
});
