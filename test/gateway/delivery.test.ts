/** Whether an answer has arrived is decided by what its socket does, and stands in the journal. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { Socket } from 'node:net';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, test } from 'node:test';
import type { Life } from './gateway-bed.js';
import { says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually } from '../../lab/bed/waiting.js';

/** A connection that one test has in its hands. */
async function connection(life: Life) {
  const { hostname, port } = new URL(life.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  await once(socket, 'connect');
  let got = '';
  const ask = (text: string): void => {
    const body = JSON.stringify(says(text));
    socket.write(
      `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${life.session.key}\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    );
  };
  const read = async (socket: Socket, count: number): Promise<void> => {
    socket.on('data', (part: Buffer) => (got += part.toString()));
    await eventually('an answer', () => got.split('HTTP/1.1 200').length > count);
  };
  return { socket, ask, read: (count = 1) => read(socket, count) };
}

const servedOf = async (life: Life): Promise<[number, boolean][]> =>
  (await life.lines()).flatMap((line) =>
    line.kind === 'served' ? [[line.turn, line.whole] as [number, boolean]] : [],
  );
const servedInTime = (life: Life): Promise<[number, boolean][]> =>
  eventually('what it says of its arrival', async () => {
    const served = await servedOf(life);
    return served.length > 0 && served;
  });
const answered = async (life: Life): Promise<void> => {
  await eventually('an answer', () => life.journal.trajectory.calls[0]?.answer != null);
};

describe('an answer that was handed over', () => {
  test('has arrived once another request comes on its connection', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const { ask, read } = await connection(life);
    ask('yes');
    await read();
    assert.deepEqual(await servedOf(life), []);
    ask('yes');
    await read(2);
    assert.deepEqual(await servedOf(life), [[0, true]]);
    assert.equal(life.journal.trajectory.calls.length, 2);
  });

  test('has arrived once its connection closes without a reset', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const { socket, ask, read } = await connection(life);
    ask('yes');
    await read();
    socket.end();
    assert.deepEqual(await servedInTime(life), [[0, true]]);
  });

  test('has not arrived where its connection is reset, and is given again', async (t) => {
    const { open, requests } = await gatewayBed(t);
    const life = await open();
    const { socket, ask } = await connection(life);
    // Nothing reads what comes.
    socket.pause();
    ask('yes');
    await answered(life);
    await sleep(50);
    socket.resetAndDestroy();
    assert.deepEqual(await servedInTime(life), [[0, false]]);
    assert.equal((await life.post(says('yes'))).status, 200);
    assert.equal(requests.length, 1);
  });

  test('has arrived once its connection has stayed open for five seconds', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const { ask, read, socket } = await connection(life);
    const asked_at = performance.now();
    ask('yes');
    await read();
    assert.deepEqual(await servedInTime(life), [[0, true]]);
    assert.ok(performance.now() - asked_at >= 5000);
    socket.destroy();
  });

  test('has arrived once a call continues it, on whatever connection', async (t) => {
    const { open } = await gatewayBed(t);
    const life = await open();
    const { ask, read, socket } = await connection(life);
    ask('yes');
    await read();
    const { messages } = says('yes');
    await life.post({
      messages: [
        ...messages,
        { role: 'assistant', content: 'yes' },
        { role: 'user', content: 'and' },
      ],
    });
    assert.deepEqual(await servedOf(life), [[0, true]]);
    const [, next] = life.journal.trajectory.calls;
    assert.deepEqual([next!.line.parent, next!.line.cause], [0, undefined]);
    socket.destroy();
  });

  test('has arrived at a program that ends with its connection open, and nobody knows it of one that goes on', async (t) => {
    const { open } = await gatewayBed(t);
    for (const [row, why] of (['over', 'moved'] as const).entries()) {
      const life = await open({ row });
      const { ask, read, socket } = await connection(life);
      ask('yes');
      await read();
      await life.session.end(why);
      assert.deepEqual(await servedOf(life), why === 'over' ? [[0, true]] : []);
      socket.destroy();
    }
  });
});
