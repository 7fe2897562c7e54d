/** A listener that only one life's programs reach: what a sandbox hands to the worker. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { AddressInfo, Server } from 'node:net';
import { connect, createServer } from 'node:net';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Life } from './gateway-bed.js';
import { says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

async function doorOf(t: TestContext): Promise<{ door: Server; url: string }> {
  const door = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(door, 'listening');
  t.after(async () => {
    const closed = once(door, 'close');
    door.close();
    await closed;
  });
  return { door, url: `http://127.0.0.1:${(door.address() as AddressInfo).port}/v1` };
}

const ask = (url: string, life: { line: string; key?: string }): Promise<Response> =>
  fetch(`${url}/chat/completions`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      ...(life.key !== undefined && { authorization: `Bearer ${life.key}` }),
    },
    body: JSON.stringify(says(life.line)),
  });

const callsOf = ({ journal }: Life): number => journal.trajectory.calls.length;

describe('a door', () => {
  test('answers for its life, whatever the key', async (t) => {
    const { open } = await gatewayBed(t);
    const [first, second] = [await open(), await open({ row: 1 })];
    const { door, url } = await doorOf(t);
    first.session.serve(door);
    for (const key of ['rollout', undefined, second.session.key])
      assert.equal((await ask(url, { line: `one of ${key}`, ...(key && { key }) })).status, 200);
    assert.deepEqual([callsOf(first), callsOf(second)], [3, 0]);
    const models = await fetch(`${url}/models`);
    assert.equal(models.status, 200);
  });

  test('knows of a request that is never answered, until one is', async (t) => {
    const { open } = await gatewayBed(t);
    const { session, url: own, headers } = await open();
    const { door, url } = await doorOf(t);
    session.serve(door);
    assert.equal(session.misfit(), null);
    assert.equal((await fetch(`${url}/messages`, { method: 'POST' })).status, 404);
    assert.match(session.misfit() ?? '', /unknown request URL: POST \/v1\/messages/);
    assert.equal((await ask(url, { line: 'yes' })).status, 200);
    assert.equal(session.misfit(), null);
    const body = JSON.stringify({ ...says('yes'), guided_regex: 'x' });
    const asked = await fetch(`${own}/chat/completions`, { method: 'POST', headers, body });
    assert.equal(asked.status, 400);
    assert.match(session.misfit() ?? '', /^guided_regex: /);
    assert.equal((await fetch(`${own}/files`, { headers })).status, 404);
    assert.match(session.misfit() ?? '', /GET \/v1\/files/);
  });

  test('opens no life to the worker’s own listener', async (t) => {
    const { open, gateway } = await gatewayBed(t);
    const { session } = await open();
    session.serve((await doorOf(t)).door);
    assert.equal((await ask(gateway.base_url, { line: 'one', key: 'rollout' })).status, 401);
  });

  test('is shut with its life, also to those who are inside', async (t) => {
    const { open } = await gatewayBed(t);
    const { session } = await open();
    const { door, url } = await doorOf(t);
    session.serve(door);
    const inside = connect(Number(new URL(url).port), '127.0.0.1');
    await once(inside, 'connect');
    inside.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n');
    await once(inside, 'data');
    const closed = once(inside, 'close');
    await session.end('over');
    await closed;
    await assert.rejects(ask(url, { line: 'one' }));
  });

  test('lets in no more than some hundreds at a time', async (t) => {
    const { open } = await gatewayBed(t);
    const { session } = await open();
    const { door, url } = await doorOf(t);
    session.serve(door);
    const port = Number(new URL(url).port);
    const crowd = Array.from({ length: 300 }, () => connect(port, '127.0.0.1'));
    t.after(() => {
      for (const one of crowd) one.destroy();
    });
    let out = 0;
    for (const one of crowd) one.on('error', () => undefined).on('close', () => (out += 1));
    await eventually('those beyond them', () => out >= 300 - 256);
    assert.equal(out, 300 - 256);
    for (const one of crowd) one.destroy();
    const isLetIn = (): Promise<boolean> =>
      ask(url, { line: 'one' }).then(
        ({ status }) => status === 200,
        () => false,
      );
    await eventually('room', isLetIn);
  });
});
