/** Several workers: a call is answered by the one that holds its rollout, wherever it arrives. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { createAnswerers } from '../../src/activities/agent/answerer-facts.js';
import { createGateway } from '../../src/gateway/gateway.js';
import { keyOf } from '../../src/gateway/request/key.js';
import { glanceOf } from '../../src/model/journal/outcome.js';
import { rolloutId } from '../../src/model/workflow-safe/rollout-id.js';
import { author, entryOf } from '../fakes/journal-lines.js';
import { REF, temporaryStore } from '../fakes/temporary-store.js';
import { says } from './asking.js';
import { gatewayBed, kill, SECRET } from './gateway-bed.js';

const LOOKS = { parked_ms: 5000, keep_alive_ms: 20 };
const ROLLOUT = rolloutId(REF);

/** A worker that plays rollouts, and another one, of the same store. */
async function twoWorkers(t: TestContext, { times = LOOKS }: { times?: object } = {}) {
  const { store } = await temporaryStore(t);
  const answerers = createAnswerers(store);
  const bed = await gatewayBed(t, { store, answerers, times });
  const other = await createGateway({ listen: '127.0.0.1:0', secret: SECRET, answerers, times });
  t.after(() => other.close());
  return { bed, other, answerers, store };
}

const askAt = (
  base_url: string,
  { headers, body }: { headers: Record<string, string>; body: object },
) =>
  fetch(`${base_url}/chat/completions`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
    redirect: 'manual',
  });

describe('a call that arrives at a worker that does not hold its rollout', () => {
  test('is led to the one that does, by a path that has its key', async (t) => {
    const { bed, other } = await twoWorkers(t);
    const life = await bed.open();
    const led = await askAt(other.base_url, { headers: life.headers, body: says('yes') });
    assert.equal(led.status, 307);
    const there = led.headers.get('location') ?? '';
    assert.equal(there, `${life.url.replace('/v1', '')}/k/${life.session.key}/v1/chat/completions`);
    const more = await fetch(`${other.base_url}/models?beta=true`, {
      headers: life.headers,
      redirect: 'manual',
    });
    assert.match(more.headers.get('location') ?? '', /\/v1\/models\?beta=true$/);
    // The address has the key: clients drop their headers on the way to another one.
    const reply = await fetch(there, { method: 'POST', body: JSON.stringify(says('yes')) });
    assert.equal(reply.status, 200);
    assert.match(await reply.text(), /"content":"yes"/);
    const followed = await fetch(`${other.base_url}/chat/completions`, {
      method: 'POST',
      headers: life.headers,
      body: JSON.stringify({ ...says('no'), stream: true }),
    });
    assert.match(await followed.text(), /\[DONE\]/);
    assert.equal(life.journal.trajectory.calls.length, 2);
  });

  test('is 401 with a key of another secret, whatever the store knows', async (t) => {
    const { bed, other } = await twoWorkers(t);
    const life = await bed.open();
    const key = keyOf({ rollout_id: ROLLOUT, life: 1, writer: life.journal.writer }, 'another');
    const reply = await askAt(other.base_url, {
      headers: { authorization: `Bearer ${key}` },
      body: says('yes'),
    });
    assert.equal(reply.status, 401);
  });

  test('waits for the next answerer in silence, and is led there', async (t) => {
    const { bed, store } = await twoWorkers(t);
    const next = await gatewayBed(t, { store, answerers: createAnswerers(store), times: LOOKS });
    const before = await bed.open();
    await kill(before);
    const asked = request(`${before.url}/chat/completions`, {
      method: 'POST',
      headers: before.headers,
    });
    // Python's http.client takes it for the answer.
    asked.on('information', () => assert.fail('a sign of life before the answer'));
    asked.end(JSON.stringify(says('yes')));
    const answered = once(asked, 'response');
    // Between two attempts.
    assert.equal(await Promise.race([answered, sleep(300, 'no answer')]), 'no answer');
    const after = await next.open({ again: true });
    const [reply] = (await answered) as [IncomingMessage];
    assert.equal(reply.statusCode, 307);
    assert.ok(reply.headers.location?.startsWith(after.url.replace('/v1', '')));
    reply.resume();
  });

  test('that nobody answers in time is 503, to be asked again', async (t) => {
    const { bed, other, answerers } = await twoWorkers(t, { times: { parked_ms: 200 } });
    const life = await bed.open();
    await bed.gateway.close();
    assert.notEqual(await answerers.find(ROLLOUT), null);
    const reply = await askAt(other.base_url, { headers: life.headers, body: says('yes') });
    assert.equal(reply.status, 503);
    assert.equal(reply.headers.get('retry-after'), '5');
    assert.equal(reply.headers.get('x-should-retry'), 'true');
    assert.match(await reply.text(), /rollout_away/);
  });

  test('is led to no frozen worker, and to no program that has got its port', async (t) => {
    const { bed, other, answerers } = await twoWorkers(t, { times: { parked_ms: 200 } });
    const life = await bed.open();
    const stillOurs = () => Promise.resolve();
    for (const answer of [
      () => undefined,
      (response: { end: () => void }) => {
        response.end();
      },
    ]) {
      const foreign = createServer((_, response) => {
        answer(response);
      }).listen(0, '127.0.0.1');
      await once(foreign, 'listening');
      const { port } = foreign.address() as AddressInfo;
      await answerers.take(ROLLOUT, { url: `http://127.0.0.1:${port}`, writer: 'w', stillOurs });
      const reply = await askAt(other.base_url, { headers: life.headers, body: says('yes') });
      assert.equal(reply.status, 503);
      foreign.closeAllConnections();
      foreign.close();
    }
  });

  test('is 410 once the journal has its end, and its answerer is known no more', async (t) => {
    const { bed, other, answerers } = await twoWorkers(t);
    const life = await bed.open();
    assert.equal((await askAt(life.url, { headers: life.headers, body: says('yes') })).status, 200);
    await life.session.end('over');
    assert.equal(await answerers.find(ROLLOUT), null);
    const by = author(life.journal.writer);
    await life.journal.append(entryOf(by.exit({ life: 1 })));
    await life.journal.append(
      entryOf(by.end({ stop_reason: 'terminated', glance: glanceOf(life.journal.trajectory) })),
    );
    await life.journal.sync();
    const reply = await askAt(other.base_url, { headers: life.headers, body: says('yes') });
    assert.equal(reply.status, 410);
  });
});

describe('a worker that has ended a life', () => {
  test('says so to its key alone: the next life may be another worker’s', async (t) => {
    const { bed, other, store } = await twoWorkers(t);
    const first = await bed.open();
    await first.session.end('over');
    await first.journal.release();
    const theirs = await gatewayBed(t, { store, answerers: createAnswerers(store), times: LOOKS });
    const second = await theirs.open();
    const at = (headers: Record<string, string>) =>
      askAt(bed.gateway.base_url, { headers, body: says('yes') });
    assert.equal((await at(first.headers)).status, 410);
    assert.equal((await at(second.headers)).status, 307);
    assert.equal(
      (await askAt(other.base_url, { headers: first.headers, body: says('yes') })).status,
      307,
    );
    assert.equal(
      (await askAt(theirs.gateway.base_url, { headers: first.headers, body: says('yes') })).status,
      409,
    );
  });
});
