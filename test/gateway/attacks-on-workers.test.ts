/** Attacks on workers and weights, by their numbers in the design: a gateway that is killed, updates between two tries. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { createAnswerers } from '../../src/activities/agent/answerer-facts.js';
import { Fault } from '../../src/model/faults.js';
import { erraticEngine } from '../fakes/erratic-engine.js';
import type { ScriptedReply } from '../fakes/scripted-service.js';
import { deltaOf, scriptedService } from '../fakes/scripted-service.js';
import { temporaryStore } from '../fakes/temporary-store.js';
import type { Life } from './gateway-bed.js';
import { askAlone, askInPart, eventsIn, readStream, says } from './asking.js';
import { gatewayBed, kill } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

const LONG = 'word '.repeat(80).trim();
const user = (content: string) => ({ messages: [{ role: 'user', content }], stream: true });

/** Weights that are published, and an engine whose requests are scripted. */
function publishedEngine(script: readonly ScriptedReply[]) {
  const { service, pool, publish } = erraticEngine({
    fates: [].values(),
    random: () => 0,
    is_published: true,
    tells_text: true,
    names_spans: false,
  });
  const prompts: number[] = [];
  let running = 0;
  const scripted = scriptedService(script);
  service.generate = (request, context) => {
    prompts.push(request.prompt_ids.length);
    running += 1;
    return scripted.generate(request, context).finally(() => (running -= 1));
  };
  const left = () => eventually('the engine to be left', () => running === 0);
  return { pool, publish, prompts, left };
}

const half = (letter: string): ScriptedReply => ({
  deltas: [deltaOf(letter.repeat(64)), deltaOf(letter.repeat(64))],
  then: 'silence',
});
const rest = (letter: string): ScriptedReply => ({
  deltas: [deltaOf(letter.repeat(64)), { ...deltaOf('¶'), text: '' }],
  then: {},
});

/** For each call, the runs of its tokens by the letter that they are and by their label. */
const labelled = ({ journal: { trajectory } }: Life): string[] =>
  trajectory.calls.map(({ sampled }) =>
    sampled.segments
      .map(({ start, end, policy_version }) => {
        const letters = String.fromCodePoint(...sampled.token_ids.slice(start, end));
        return `${[...new Set(letters.replace('¶', ''))].join('')}: ${policy_version}`;
      })
      .join(', '),
  );

describe('attack', () => {
  test('9: a gateway is killed in a stream: another one gives it from its first token, and goes on', async (t) => {
    const { store } = await temporaryStore(t);
    const answerers = createAnswerers(store);
    const options = { store, answerers, simulator: { tokens_per_second: 400 } };
    const [one, other] = [await gatewayBed(t, options), await gatewayBed(t, options)];
    const before = await one.open();
    const heard = await askInPart(before, { body: says(LONG), characters: 2000 });
    // Nothing of what it does from now on is anywhere.
    const gone = new Fault({ type: 'StoreFault', message: 'it was killed' });
    t.mock.method(before.playing.journal, 'append', () => Promise.reject(gone));
    await before.session.broken;
    const body = JSON.stringify({ ...says(LONG), stream: true });
    const asked = fetch(`${other.gateway.base_url}/chat/completions`, {
      method: 'POST',
      headers: before.headers,
      body,
    });
    const after = await other.open({ again: true });
    const inherited = after.journal.trajectory.calls[0]?.sampled.token_ids.length ?? 0;
    const text = eventsIn(await (await asked).text());
    assert.ok(inherited > 0);
    assert.ok(text.startsWith(eventsIn(heard).replace(/\n[^\n]*$/, '')));
    assert.equal(readStream(text).content, LONG);
    assert.equal(after.journal.trajectory.calls.length, 1);
    assert.ok(
      other.requests[0]!.prompt_ids.length >= one.requests[0]!.prompt_ids.length + inherited,
    );
  });

  test('10: an update between a call and its retry: the first tokens keep their label, the rest has the new one', async (t) => {
    const { pool, publish, prompts, left } = publishedEngine([half('a'), rest('b')]);
    const { open } = await gatewayBed(t, { pool, times: { linger_ms: 5 } });
    const life = await open();
    const heard = await askInPart(life, { body: user('go'), characters: 700 });
    await left();
    publish();
    const again = await askAlone(life, { body: user('go') });
    assert.ok(eventsIn(again.text).startsWith(eventsIn(heard)));
    assert.match(again.content, /^a{128}b+¶?$/);
    assert.deepEqual(labelled(life), ['a: 1, b: 2']);
    assert.deepEqual(prompts, [prompts[0], prompts[0]! + 128]);
  });

  test('19: an update between two lives: what is replayed keeps its labels, what is new has the new one', async (t) => {
    const { pool, publish, prompts, left } = publishedEngine([
      rest('a'),
      half('b'),
      rest('c'),
      rest('d'),
    ]);
    const { open } = await gatewayBed(t, { pool, times: { linger_ms: 5 } });
    const first = await open();
    const whole = await askAlone(first, { body: user('one') });
    await askInPart(first, { body: user('two'), characters: 700 });
    await left();
    await kill(first);
    publish();
    const second = await open();
    assert.equal((await askAlone(second, { body: user('one') })).text, whole.text);
    assert.match((await askAlone(second, { body: user('two') })).content, /^b{128}c+¶?$/);
    await askAlone(second, { body: user('three') });
    assert.deepEqual(labelled(second), ['a: 1', 'b: 1, c: 2', 'd: 2']);
    assert.equal(prompts.length, 4);
  });
});
