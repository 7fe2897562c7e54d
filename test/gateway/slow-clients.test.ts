/** A client that does not read costs no more than what it was sent, and not for ever. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Giving } from '../../src/gateway/deliver/stream.js';
import { give } from '../../src/gateway/deliver/stream.js';
import { nothingSampled } from '../../src/model/journal/open-answers.js';
import { CHAT } from '../../src/gateway/dialects/dialects.js';
import { newCall } from '../../src/gateway/play/played-call.js';
import type { Telling } from '../../src/gateway/deliver/telling.js';
import { watchSocket } from '../../src/gateway/deliver/delivery.js';
import { eventually } from '../../lab/bed/waiting.js';

const STALLED_MS = 400;
/** Its events take more than what the sockets of both sides hold. */
const LONG = 'x'.repeat(2 ** 20);

/** An answer that is said so far, on a connection whose client reads or does not. */
async function giving(
  t: TestContext,
  {
    reads,
    stream,
    stalled_ms = STALLED_MS,
  }: { reads: boolean; stream: boolean; stalled_ms?: number },
) {
  const call = newCall({ key: 'key', request: null, turn: 0, is_known: true, is_delivered: false });
  const answer = { content: LONG.repeat(16), tool_calls: [], malformed: 0 };
  const line = { at: 0, asked: {} };
  const calls = [
    { line, prompt_length: 1, sampled: nothingSampled(), answer: stream ? null : answer },
  ];
  call.telling = {
    reading: () => ({ reasoning: '', content: LONG, calls: [], ended: false }),
  } as unknown as Telling;
  const became: string[] = [];
  const attached: Giving['attached'] = {
    call,
    cut: () => became.push('cut'),
    handed: () => became.push('handed'),
    left: () => became.push('left'),
  };
  let found: (response: ServerResponse) => void = () => undefined;
  const response = new Promise<ServerResponse>((resolve) => (found = resolve));
  let done: Promise<void> = Promise.resolve();
  const server = createServer((request, response) => {
    const journal = { trajectory: { calls }, stored: () => Promise.resolve() };
    const life = {
      playing: { rollout_id: 'r', journal },
      standing: { ending: () => null },
    } as unknown as Giving['life'];
    const times = { keep_alive_ms: 5, stalled_ms };
    const given = { request, response, attached, dialect: CHAT, life, times };
    done = give(given, { stream, asked: {} });
    found(response);
  });
  server.on('connection', watchSocket);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1');
  t.after(() => {
    socket.destroy();
    server.close();
    server.closeAllConnections();
  });
  socket.on('error', () => undefined);
  socket.write('GET / HTTP/1.1\r\nhost: x\r\n\r\n');
  if (reads) socket.resume();
  else socket.pause();
  return { response: await response, became, done: () => done, call };
}

describe('a client', () => {
  test('that does not read a stream is sent no signs of life, and is cut off', async (t) => {
    const { response, became, done } = await giving(t, {
      ...{ reads: false, stream: true, stalled_ms: 3000 },
    });
    await eventually('a full socket', () => response.writableNeedDrain);
    const held = response.writableLength;
    await sleep(100);
    assert.equal(response.writableLength, held);
    assert.equal(response.listenerCount('drain'), 1);
    await done();
    assert.deepEqual(became, ['cut']);
    assert.ok(response.destroyed);
  });

  test('that reads is not', async (t) => {
    const { response, became, call } = await giving(t, { reads: true, stream: true });
    await sleep(STALLED_MS * 2);
    assert.equal(response.destroyed, false);
    assert.deepEqual(became, []);
    response.destroy();
    call.news.tell();
  });

  test('that does not read a whole answer is cut off, too', async (t) => {
    const { became, done, response } = await giving(t, { reads: false, stream: false });
    await done();
    assert.deepEqual(became, ['cut']);
    assert.ok(response.destroyed);
  });
});
