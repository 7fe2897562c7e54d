/** A program that begins again is led back to where it was by its own journal. */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { pathsOf, rulesOf } from '../../src/model/results/call-paths.js';
import type { Life } from './gateway-bed.js';
import { askAlone, askInPart, eventsIn, readStream, says } from './asking.js';
import { gatewayBed, kill } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = 'word '.repeat(80).trim();
const SLOW = { simulator: { tokens_per_second: 200 } };

const servedTo = ({ journal }: Life, life: number): (boolean | undefined)[] =>
  journal.trajectory.calls.map(({ given }) => given.get(life));
const user = (content: string) => ({ role: 'user', content });
const on = (answer: string, news: string) => ({
  ...says('yes'),
  messages: [...says('yes').messages, { role: 'assistant', content: answer }, user(news)],
});

describe('a life that replays', () => {
  test('gets the answers of the one before, byte for byte, and samples what is new', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const first = await open();
    const asked = [says('yes'), on('yes', 'Say: no'), { ...says('stream'), stream: true }];
    const texts: string[] = [];
    for (const one of asked) texts.push(await (await first.post(one)).text());
    await kill(first);
    const second = await open();
    for (const [k, one] of asked.entries())
      assert.equal(await (await second.post(one)).text(), texts[k]);
    assert.equal(requests.length, 3);
    await (await second.post(says('new'))).text();
    await second.session.end('over');
    assert.deepEqual(servedTo(second, 2), [true, true, true, true]);
    const { calls } = second.journal.trajectory;
    assert.deepEqual(
      calls.map(({ line }) => line.life),
      [1, 1, 1, 2],
    );
    assert.ok(!calls.some(({ line }) => line.cause === 'diverged'));
  });

  test('continues an answer in whose middle the one before was killed', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const first = await open();
    const asked = { ...says(LONG), stream: true };
    const part = await askInPart(first, { body: asked, characters: 2000 });
    await kill(first);
    const had = first.journal.trajectory.calls[0]!.sampled.token_ids.length;
    const second = await open();
    const again = await (await second.post(asked)).text();
    assert.ok(eventsIn(again).startsWith(eventsIn(part)), 'it was told something else');
    assert.equal(readStream(again).content, LONG);
    assert.equal(requests.length, 2);
    assert.equal(requests[1]!.prompt_ids.length, requests[0]!.prompt_ids.length + had);
  });

  test('names where it asks something else, and nothing of what it did not ask again is trained', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const first = await open();
    for (const one of [says('yes'), on('yes', 'chunk a81'), says('title')])
      await (await first.post(one)).text();
    await kill(first);
    const second = await open();
    for (const one of [says('yes'), on('yes', 'chunk b07')]) await (await second.post(one)).text();
    await second.session.end('over');
    const { trajectory } = second.journal;
    assert.deepEqual(trajectory.calls[3]!.line.diverged, { call: 1, message: 2 });
    assert.equal(requests.length, 4);
    const { status } = pathsOf(trajectory, rulesOf(trajectory));
    assert.deepEqual(status, [null, 'abandoned', 'abandoned', null]);
  });

  test('that begins anew gets nothing of the one before', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const first = await open();
    await (await first.post(says('yes'))).text();
    await kill(first);
    const second = await open({ restart: 'fresh' });
    await (await second.post(says('yes'))).text();
    assert.equal(requests.length, 2);
    assert.equal(second.journal.trajectory.calls[1]!.line.cause, 'resampled');
  });

  test('was not ended by the limit that it met before answers of an earlier life', async (t) => {
    const { open } = await gatewayBed(t, { simulator: {} });
    const long = says('x'.repeat(5000));
    const first = await open();
    assert.equal((await first.post(long)).status, 400);
    await (await first.post(says('short'))).text();
    await kill(first);
    const second = await open();
    assert.equal((await second.post(long)).status, 400);
    assert.notEqual(second.journal.trajectory.lives[1]!.refusal, null);
    await (await second.post(says('short'))).text();
    await second.session.end('over');
    assert.equal(second.journal.trajectory.lives[1]!.refusal, null);
  });
});

describe('a retry that its SDK marks', () => {
  const marked = { headers: { 'x-stainless-retry-count': '1' } };

  test('waits for the close of the connection before it, and gets its answer', async (t) => {
    const { open, requests } = await gatewayBed(t, { ...SLOW, times: { retry_ms: 60_000 } });
    const life = await open();
    const gone = new AbortController();
    const first = life.post(says(LONG), { signal: gone.signal }).catch(() => undefined);
    await eventually('its call', () => life.journal.trajectory.calls.length > 0);
    const second = life.post(says(LONG), marked);
    await sleep(100);
    gone.abort();
    await first;
    assert.equal((await second).status, 200);
    assert.equal(requests.length, 1);
  });

  test('is another call where the connection before it stays for a second', async (t) => {
    const { open, requests } = await gatewayBed(t, { simulator: { tokens_per_second: 60 } });
    const life = await open();
    const { calls } = life.journal.trajectory;
    const first = life.post(says(LONG));
    await eventually('its call', () => calls.length > 0);
    const asked_at = performance.now();
    const second = life.post(says(LONG), marked);
    await eventually('another call', () => calls.length > 1);
    assert.ok(performance.now() - asked_at >= 990);
    for (const reply of await Promise.all([first, second])) assert.equal(reply.status, 200);
    assert.equal(requests.length, 2);
  });

  test('gets an answer again that a pooled connection has had for less than five seconds', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const first = await (await life.post(says('yes'))).text();
    // Not on the same connection, which would tell that it has arrived.
    const second = await askAlone(life, { body: says('yes'), more: marked.headers });
    assert.equal(second.text, first);
    assert.equal(requests.length, 1);
  });

  test('gets an answer again that arrived, and that nothing continues', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const texts: string[] = [];
    for (const mark of [{}, marked.headers, {}])
      texts.push((await askAlone(life, { body: says('yes'), more: mark })).text);
    assert.equal(texts[0], texts[1]);
    assert.notEqual(texts[0], texts[2]);
    assert.equal(requests.length, 2);
  });
});
