/**
 * Attacks on an agent's calls: retries, copies, cuts, whatever a client does. Those on lives are in
 * `attacks-on-lives.test.ts`. By their numbers in the design.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { matchCall } from '../../src/gateway/match/matching.js';
import { pathsOf, rulesOf } from '../../src/model/results/call-paths.js';
import type { Life } from './gateway-bed.js';
import { askAlone, askInPart, eventsIn, readStream, says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = 'word '.repeat(80).trim();
const SLOW = { simulator: { tokens_per_second: 200 } };
const user = (content: string) => ({ role: 'user', content });
const on = (body: ReturnType<typeof says>, { said, news }: { said: string; news: string }) => ({
  ...body,
  messages: [...body.messages, { role: 'assistant', content: said }, user(`Say: ${news}`)],
});

const causes = ({ journal }: Life) => journal.trajectory.calls.map(({ line }) => line.cause);
const statuses = ({ journal: { trajectory } }: Life) =>
  pathsOf(trajectory, rulesOf(trajectory)).status;

describe('attack', () => {
  test('2: a client that times out while the first call streams gets it from its first token, sampled once', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const part = await askInPart(life, { body: says(LONG), characters: 2000 });
    const again = await askAlone(life, { body: { ...says(LONG), stream: true } });
    assert.ok(eventsIn(again.text).startsWith(eventsIn(part)));
    assert.equal(again.content, LONG);
    assert.equal(requests.length, 1);
  });

  test('3: a retry that arrives before the close is a sibling; what nobody reads is not trained', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const gone = new AbortController();
    const first = life.post(says(LONG), { signal: gone.signal }).catch(() => undefined);
    await eventually('its call', () => life.journal.trajectory.calls.length > 0);
    const second = askAlone(life, { body: says(LONG) });
    await eventually('another call', () => life.journal.trajectory.calls.length > 1);
    gone.abort();
    await Promise.all([first, second]);
    assert.equal(requests.length, 2);
    assert.deepEqual(statuses(life), ['unread', null]);
  });

  test('4: four candidates at once are four calls, of which the chosen one trains', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    await Promise.all([0, 1, 2, 3].map(() => askAlone(life, { body: says('yes') })));
    await askAlone(life, { body: on(says('yes'), { said: 'yes', news: 'on' }) });
    assert.equal(requests.length, 5);
    assert.deepEqual(causes(life), ['first', 'resampled', 'resampled', 'resampled', undefined]);
    const { calls } = life.journal.trajectory;
    const forks = calls.slice(1, 4).map(({ from }) => from?.ids);
    assert.deepEqual(
      forks,
      [1, 2, 3].map(() => calls[0]!.prompt_length),
    );
    const chosen = calls[4]!.line.parent;
    const lost = [0, 1, 2, 3].filter((call) => call !== chosen);
    assert.ok(lost.every((call) => statuses(life)[call] === 'resampled'));
    assert.equal(statuses(life)[chosen ?? -1], null);
  });

  test('6: a compaction that asks the same again is sampled again, without a loop', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    for (let k = 0; k < 3; k++)
      assert.equal((await askAlone(life, { body: says('notes') })).content, 'notes');
    assert.equal(requests.length, 3);
  });

  test('7: two helpers at once are sequences of their own, and main goes on', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    await askAlone(life, { body: says('yes') });
    const helper = (system: string) => ({
      ...says('help'),
      messages: [{ role: 'system', content: system }, user('Say: help')],
    });
    await Promise.all(['one', 'two'].map((system) => askAlone(life, { body: helper(system) })));
    await askAlone(life, { body: on(says('yes'), { said: 'yes', news: 'on' }) });
    assert.deepEqual(causes(life), ['first', 'separate', 'separate', undefined]);
    assert.equal(life.journal.trajectory.calls[3]!.line.parent, 0);
  });

  test('11: an agent that goes on from part of an answer edits; what it cut off is unread', async (t) => {
    const { open } = await gatewayBed(t, SLOW);
    const life = await open();
    await askInPart(life, { body: says(LONG), characters: 2000 });
    await askAlone(life, { body: on(says(LONG), { said: 'word word', news: 'on' }) });
    assert.deepEqual(causes(life), ['first', 'edited']);
    assert.deepEqual(statuses(life), ['unread', null]);
  });

  test('12: a tool call that does not parse stays text, and is counted', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const broken = '<tool_call>{"name": "ls", "arguments": </tool_call>';
    assert.equal((await askAlone(life, { body: says(broken) })).content, broken);
    assert.equal(life.journal.trajectory.calls[0]!.answer?.malformed, 1);
  });

  test('13: a full context is 400 in the words of the dialect, and the agent may compact', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open({ rollout: { max_seq_len: 400 } });
    await askAlone(life, { body: says('yes') });
    const full = await askAlone(life, {
      body: on(says('yes'), { said: 'yes', news: 'x'.repeat(900) }),
    });
    assert.equal(full.status, 400);
    assert.match(full.text, /context_length_exceeded/);
    await askAlone(life, { body: { messages: [user('Say: notes')] } });
    assert.equal(causes(life).length, 2);
    assert.equal(life.journal.trajectory.lives[0]!.refusal, null);
  });

  test('14: a huge body, deep JSON and 100,000 messages are refused before anything is rendered', async (t) => {
    const { open, service } = await gatewayBed(t);
    let rendered = 0;
    const renderChat = service.renderChat.bind(service);
    service.renderChat = (...asked) => {
      rendered += 1;
      return renderChat(...asked);
    };
    const life = await open();
    const bodies = [
      `{"messages": [{"role": "user", "content": "${'x'.repeat(9 * 1024 * 1024)}"}]}`,
      `{"messages": ${'['.repeat(9999)}${']'.repeat(9999)}}`,
      JSON.stringify({ messages: Array.from({ length: 100_000 }, () => user('x')) }),
    ];
    const statuses: number[] = [];
    for (const body of bodies) statuses.push((await life.post(body)).status);
    assert.deepEqual(statuses, [413, 400, 400]);
    assert.equal(rendered, 0);
  });

  test('15: an agent that never ends is refused, and is to be ended soon', async (t) => {
    const { open } = await gatewayBed(t, { times: { overstay_ms: 50 } });
    const life = await open({ limits: { calls: 1 } });
    await askAlone(life, { body: says('yes') });
    for (let k = 0; k < 3; k++) {
      const refused = await askAlone(life, { body: says('more') });
      assert.deepEqual([refused.status, /rollout_limit/.test(refused.text)], [400, true]);
    }
    await life.session.overstays;
    const lines = (await life.lines()).filter(({ kind }) => kind === 'refused');
    assert.equal(lines.length, 1);
  });

  test('17: a policy that closes before the last byte until it likes the text gets the same text', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const life = await open();
    const texts: string[] = [];
    for (const characters of [1000, 2000, 3000])
      texts.push(eventsIn(await askInPart(life, { body: says(LONG), characters })));
    const all = eventsIn((await askAlone(life, { body: { ...says(LONG), stream: true } })).text);
    assert.ok(texts.every((one) => all.startsWith(one)));
    assert.equal(requests.length, 1);
  });

  test('20: an agent that begins again inside a life asks anew; a path that it left is not trained', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    await askAlone(life, { body: says('yes') });
    await askAlone(life, { body: says('yes') });
    await askAlone(life, { body: on(says('yes'), { said: 'yes', news: 'on' }) });
    assert.equal(requests.length, 3);
    assert.deepEqual(causes(life), ['first', 'resampled', undefined]);
    assert.deepEqual(statuses(life), ['resampled', null, null]);
  });

  test('21: an answer that a buffering proxy took and lost costs a sibling', () => {
    // The proxy's connection has closed well: delivery.test.ts.
    const call = {
      call: 0,
      key: 'a',
      is_known: true,
      is_delivered: true,
      is_handed: false,
      is_continued: false,
      is_complete: true,
      connections: 0,
      closed_at: [],
    };
    const asking = { key: 'a', idempotency_key: null, is_retry: false, has_waited: false };
    assert.equal(matchCall(asking, { calls: [call], named: new Map(), replays: true }), 'new');
  });

  test('26: a client that is frozen behind the last byte, and killed, has no answer: its retry gets it', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const { hostname, port } = new URL(life.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    await once(socket, 'connect');
    socket.pause();
    const body = JSON.stringify(says('yes'));
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: ${life.headers['authorization'] ?? ''}\r\ncontent-length: ${body.length}\r\n\r\n${body}`,
    );
    const { calls } = life.journal.trajectory;
    await eventually('its answer', () => calls[0]?.answer != null);
    await sleep(50);
    socket.resetAndDestroy();
    await eventually('the reset', () => calls[0]?.given.get(1) === false);
    assert.equal((await askAlone(life, { body: says('yes') })).content, 'yes');
    assert.equal(requests.length, 1);
  });

  test('29: a client that dislikes a looping answer and closes three times at its place gets another one', async (t) => {
    const { open } = await gatewayBed(t, {
      simulator: { ms_to_first_token: 60_000 },
      // A connection has a sign of life once it waits for its call.
      times: { keep_alive_ms: 5 },
    });
    const life = await open();
    // One that closes before it has found its call does not count.
    let asked = 0;
    for (; asked < 20 && causes(life).length < 2; asked++)
      await askInPart(life, { body: says('yes'), characters: 1 });
    assert.deepEqual(causes(life), ['first', 'resampled']);
    assert.ok(asked >= 4);
  });

  test('31: a picture by URL is 400 before anything is rendered', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const picture = { type: 'image_url', image_url: { url: 'http://169.254.169.254/' } };
    const refused = await askAlone(life, {
      body: { messages: [{ role: 'user', content: [picture] }] },
    });
    assert.equal(refused.status, 400);
    assert.match(refused.text, /no address is opened/);
    assert.deepEqual([requests.length, life.journal.trajectory.calls.length], [0, 0]);
  });

  test('a stream that is attached half-way, in whole and in another form, says one answer', async (t) => {
    const { open } = await gatewayBed(t, SLOW);
    const life = await open();
    const part = await askInPart(life, { body: says(LONG), characters: 3000 });
    const named = { 'idempotency-key': 'one' };
    const whole = { ...says(LONG), stream: true };
    const first = await askAlone(life, { body: whole, more: named });
    const second = await life.post(whole, { headers: named });
    assert.equal(await second.text(), first.text);
    assert.ok(eventsIn(first.text).startsWith(eventsIn(part)));
    const unstreamed = await life.post(says(LONG), { headers: named });
    const { choices } = (await unstreamed.json()) as {
      choices: [{ message: { content: string } }];
    };
    assert.equal(choices[0].message.content, readStream(first.text).content);
  });
});
