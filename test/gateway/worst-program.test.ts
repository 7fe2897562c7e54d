/** One program of a sandbox does its worst to the gateway: what another rollout's call takes beside it. */
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import type { AddressInfo, Socket } from 'node:net';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { TestContext } from 'node:test';
import { describe, test } from 'node:test';
import type { Life } from './gateway-bed.js';
import { says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { within } from '../../lab/bed/waiting.js';

const MIB = 2 ** 20;
const user = (content: string) => ({ role: 'user', content });

/** The sandbox's own socket, on which nobody else is. */
async function portOf(t: TestContext, life: Life): Promise<number> {
  const door = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(door, 'listening');
  t.after(() => door.close());
  life.session.serve(door);
  return (door.address() as AddressInfo).port;
}

const HEAD = 'POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n';

/** Begins a body of so many bytes, and sends a part of it. */
function half(port: number, { announced, sent }: { announced: number; sent: number }): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => undefined).resume();
  socket.write(`${HEAD}content-length: ${announced}\r\n\r\n`);
  socket.write(Buffer.alloc(sent, ' '));
  return socket;
}

function cutAtTheEnd(t: TestContext, sockets: Socket[]): void {
  t.after(() => {
    for (const socket of sockets) socket.destroy();
  });
}

describe('beside a program that does its worst, another rollout', () => {
  test('is answered at once while 40 bodies are half sent', async (t) => {
    const { open } = await gatewayBed(t);
    const [bad, good] = [await open(), await open({ row: 1 })];
    const port = await portOf(t, bad);
    const many = Array.from({ length: 40 }, () =>
      half(port, { announced: 8 * MIB - 100, sent: 100_000 }),
    );
    cutAtTheEnd(t, many);
    await sleep(300);
    const { status } = await within(
      { what: 'an answer', timeout_ms: 10_000 },
      good.post(says('yes')),
    );
    assert.equal(status, 200);
  });

  test('is answered at once while 60 bodies of 7 MiB wait for their last byte', async (t) => {
    const { open } = await gatewayBed(t);
    const [bad, good] = [await open(), await open({ row: 1 })];
    const port = await portOf(t, bad);
    const many = Array.from({ length: 60 }, () =>
      half(port, { announced: 8 * MIB - 100, sent: 7 * MIB }),
    );
    cutAtTheEnd(t, many);
    await sleep(1000);
    const large = { ...says('yes'), messages: [user('x'.repeat(2000)), user('Say: yes')] };
    const { status } = await within({ what: 'an answer', timeout_ms: 10_000 }, good.post(large));
    assert.equal(status, 200);
  });
});

const CALLS = 12;
const median = (all: number[]): number => all.toSorted((a, b) => a - b)[all.length >> 1] ?? 0;

/** Milliseconds of a call of some forty tokens. */
async function callsOf(life: Life, line: string): Promise<number[]> {
  const all: number[] = [];
  for (let k = 0; k < CALLS; k++) {
    const began = performance.now();
    const { status } = await life.post(says(`${line} ${k} ${'word '.repeat(12)}`));
    assert.equal(status, 200);
    all.push(performance.now() - began);
  }
  return all;
}

for (const floods of [[], ['floods']])
  test(`a call takes at most twice as long beside a program that does all of it at once${floods.length > 0 ? ', and floods' : ''}`, async (t) => {
    const { open } = await gatewayBed(t, { simulator: { tokens_per_second: 100 } });
    const [bad, good] = [await open({ limits: { calls: 50 } }), await open({ row: 1 })];
    const before = await callsOf(good, 'alone');
    const program = spawn(process.execPath, [
      ...['--import', 'tsx', new URL('worst-program.ts', import.meta.url).pathname],
      ...[String(await portOf(t, bad)), ...floods],
    ]);
    t.after(() => program.kill('SIGKILL'));
    program.stderr.pipe(process.stderr);
    await once(program.stdout, 'data');
    const beside = await callsOf(good, 'beside');
    assert.equal(program.exitCode, null, 'it was at it all the time');
    const [alone, both] = [median(before), median(beside)];
    t.diagnostic(`${Math.round(alone)} ms alone, ${Math.round(both)} ms beside it`);
    t.diagnostic(`longest ${Math.round(Math.max(...before))}, ${Math.round(Math.max(...beside))}`);
    t.diagnostic(`${bad.journal.trajectory.calls.length} calls, ${bad.session.ourFault()}`);
    assert.ok(both <= 2 * alone, `${both} ms beside it, ${alone} ms alone`);
  });
