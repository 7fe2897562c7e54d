import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { Content } from '../../src/model/content.js';
import { hasImages, referenceImages, restoreImages, textOf } from '../../src/model/content.js';
import { Message } from '../../src/model/sample.js';

const text = (words: string) => ({ type: 'text' as const, text: words });
const image = (url: string) => ({ type: 'image_url' as const, image_url: { url } });
const DATA = 'data:image/png;base64,iVBORw0KGgo=';

const LOG: { role: string; content: Content }[] = [
  { role: 'system', content: 'Look.' },
  {
    role: 'user',
    content: [text('Here: '), image(DATA), image('https://pictures.example/2.png'), text('?')],
  },
];

describe('content of a prompt', () => {
  test('is a text or parts; its text is that of its parts', () => {
    assert.deepEqual(
      LOG.map(({ content }) => textOf(content)),
      ['Look.', 'Here: ?'],
    );
    assert.deepEqual(
      LOG.map(({ content }) => hasImages(content)),
      [false, true],
    );
  });

  test('refers to images that are written out, and only to those, by their place in the sample', () => {
    assert.deepEqual(referenceImages(LOG)[1]?.content, [
      text('Here: '),
      image('sample:message_log.1.content.1'),
      image('https://pictures.example/2.png'),
      text('?'),
    ]);
    assert.ok(!JSON.stringify(referenceImages(LOG)).includes('base64'));
  });

  test('comes back whole with its sample, behind whatever follows in the log', () => {
    const answered = [...referenceImages(LOG), { role: 'assistant', content: 'A cat.' }];
    assert.deepEqual(restoreImages(answered, LOG), [...LOG, answered[2]]);
  });

  test('of another kind of part, an unknown field or no part at all is refused', () => {
    for (const content of [
      [],
      [{ type: 'audio_url' }],
      [{ ...text('x'), more: 1 }],
      7,
      [image('')],
    ]) {
      assert.equal(
        Message.safeParse({ role: 'user', content }).success,
        false,
        JSON.stringify(content),
      );
    }
  });
});
