/**
 * Attacks on lives: programs, workers and engines that end in the middle. By their numbers in the design.
 *
 * 9, 10 and 19 are in `attacks-on-workers.test.ts`, 22 (the verifier is away) in `test/long/agent.test.ts`, 23 (Temporal
 * loses its database) in `test/long/agent-database.test.ts`. 24 is of tools in a loop of ours: there are none.
 */
import assert from 'node:assert/strict';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import { divergenceText } from '../../src/client/show/divergence-text.js';
import { pathsOf, rulesOf } from '../../src/model/results/call-paths.js';
import type { Life } from './gateway-bed.js';
import { askAlone, askInPart, eventsIn, says } from './asking.js';
import { gatewayBed, kill, poolWithout } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = 'word '.repeat(80).trim();
const SLOW = { simulator: { tokens_per_second: 200 } };
const user = (content: string) => ({ role: 'user', content });
const statuses = ({ journal: { trajectory } }: Life) =>
  pathsOf(trajectory, rulesOf(trajectory)).status;

describe('attack', () => {
  test('1: of two workers the old one says nothing more, and the new one goes on', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const before = await open();
    const body = { ...says(LONG), stream: true };
    let old = '';
    const reader = (await before.post(body)).body!.pipeThrough(new TextDecoderStream());
    const isCut = (async () => {
      for await (const part of reader) old += part;
    })().then(
      () => false,
      () => true,
    );
    await eventually(
      'tokens',
      () => (before.journal.trajectory.calls[0]?.sampled.token_ids.length ?? 0) >= 20,
    );
    const after = await open({ again: true });
    const inherited = after.journal.trajectory.calls[0]?.sampled.token_ids.length ?? 0;
    assert.ok(inherited > 0);
    const again = await askAlone(after, { body });
    assert.equal(again.content, LONG);
    assert.ok(await isCut, 'a stream that ends in an error is asked for again');
    const said = eventsIn(old)
      .split('\n\n')
      .filter((event) => event.includes('"delta"'));
    const all = eventsIn(again.text).split('\n\n');
    assert.deepEqual(said, all.slice(0, said.length));
    assert.ok(said.length < all.length, 'the old worker went on to the end');
    assert.ok(requests[1]!.prompt_ids.length >= requests[0]!.prompt_ids.length + inherited);
    assert.notEqual(await before.session.broken, null);
  });

  test('5: candidates in sequence are new calls; another life is given the one first that was gone on from', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const first = await open();
    const ids: string[] = [];
    const idOf = (text: string): string => (JSON.parse(text) as { id: string }).id;
    for (let k = 0; k < 4; k++) ids.push(idOf((await askAlone(first, { body: says('yes') })).text));
    assert.equal(new Set(ids).size, 4);
    const next = {
      messages: [...says('yes').messages, { role: 'assistant', content: 'yes' }, user('Say: on')],
    };
    await askAlone(first, { body: next });
    const chosen = first.journal.trajectory.calls[4]!.line.parent ?? -1;
    await kill(first);
    const second = await open();
    const given: string[] = [];
    for (let k = 0; k < 4; k++)
      given.push(idOf((await askAlone(second, { body: says('yes') })).text));
    assert.deepEqual(given, [ids[chosen], ...ids.filter((_, k) => k !== chosen)]);
    await askAlone(second, { body: next });
    assert.equal(requests.length, 5);
  });

  test('8: an agent that is killed in an answer finds it in its next life', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const first = await open();
    const part = await askInPart(first, { body: says(LONG), characters: 2000 });
    await kill(first);
    const second = await open();
    const again = await askAlone(second, { body: { ...says(LONG), stream: true } });
    assert.ok(eventsIn(again.text).startsWith(eventsIn(part)));
    assert.equal(again.content, LONG);
    assert.equal(second.journal.trajectory.calls.length, 1);
    assert.equal(requests.length, 2);
  });

  test('16: a key that leaks samples until its life ends, and can do nothing else', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    for (const path of ['rewards', 'sessions', 'files'])
      assert.equal(
        (await fetch(`${life.url}/${path}`, { method: 'POST', headers: life.headers })).status,
        404,
      );
    assert.equal((await life.post(says('yes'))).status, 200);
    await life.session.end('over');
    assert.equal((await life.post(says('yes'))).status, 410);
  });

  test('18: an agent that differs at its first request is sampled again, and told where', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const first = await open();
    await askAlone(first, { body: { messages: [user('In a folder tmp.a81. Say: yes')] } });
    await kill(first);
    const second = await open();
    await askAlone(second, { body: { messages: [user('In a folder tmp.b07. Say: yes')] } });
    assert.equal(requests.length, 2);
    const { trajectory } = second.journal;
    assert.equal(trajectory.calls[1]!.line.cause, 'diverged');
    assert.equal(
      divergenceText(trajectory, 1),
      'from call 0 at message 0: "…folder tmp.a81. Say: yes" / "…folder tmp.b07. Say: yes"',
    );
    assert.deepEqual(statuses(second), ['abandoned', null]);
  });

  test('25: of two candidates, the second half streamed, the next life gets both in their order', async (t) => {
    const { open, requests } = await gatewayBed(t, SLOW);
    const first = await open();
    const one = await askAlone(first, { body: { ...says(LONG), stream: true } });
    const part = await askInPart(first, { body: says(LONG), characters: 2000 });
    await kill(first);
    const second = await open();
    const given = [0, 1].map(() => askAlone(second, { body: { ...says(LONG), stream: true } }));
    const [again, other] = await Promise.all(given);
    assert.equal(again!.text, one.text);
    assert.ok(eventsIn(other!.text).startsWith(eventsIn(part)));
    assert.equal(second.journal.trajectory.calls.length, 2);
    assert.equal(requests.length, 3);
  });

  test('27: helpers of a life that the last one did not ask again are abandoned', async (t) => {
    const { open } = await gatewayBed(t);
    const first = await open();
    const helper = { messages: [{ role: 'system', content: 'a title' }, user('Say: title')] };
    await askAlone(first, { body: says('yes') });
    await askAlone(first, { body: helper });
    await kill(first);
    const second = await open();
    await askAlone(second, { body: says('no') });
    assert.deepEqual(statuses(second), ['abandoned', 'abandoned', null]);
  });

  test('28: an engine that is away until the client gives up is our fault: the exit is no verdict', async (t) => {
    const bed = await gatewayBed(t);
    const life = await bed.open({ pool: poolWithout(bed.service) });
    const now = performance.now.bind(performance);
    let passed = 0;
    t.mock.method(performance, 'now', () => now() + passed);
    const gone = new AbortController();
    const asked = life.post(says('yes'), { signal: gone.signal });
    await eventually('its call', () => life.journal.trajectory.calls.length > 0);
    await sleep(50);
    passed = 25 * 60_000;
    gone.abort();
    await assert.rejects(asked);
    assert.match(
      await eventually('a fault of ours', () => life.session.ourFault()),
      /no replica served for 1500 s/,
    );
  });

  test('30: a key names the writer of its life line: that of another worker is none', async (t) => {
    const { open } = await gatewayBed(t);
    const first = await open();
    await kill(first);
    const second = await open();
    assert.notEqual(first.session.key, second.session.key);
    assert.equal((await first.post(says('yes'))).status, 409);
    assert.equal((await second.post(says('yes'))).status, 200);
  });
});
