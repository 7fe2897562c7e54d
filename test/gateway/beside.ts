import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { TestContext } from 'node:test';
import type { Given, Life } from './gateway-bed.js';
import { says } from './asking.js';
import { gatewayBed } from './gateway-bed.js';
import { eventually, within } from '../../lab/bed/waiting.js';

/** Bytes as they are on a connection of its own, and all that comes back. */
export async function raw(life: Life, text: string): Promise<string> {
  const { hostname, port } = new URL(life.url);
  const socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  let got = '';
  socket.setEncoding('utf8').on('data', (part: string) => (got += part));
  socket.write(text);
  await within('the end of the connection', once(socket, 'close'));
  socket.destroy();
  return got;
}

/** Beside a call that goes on meanwhile, and that is undisturbed. */
export async function beside(
  t: TestContext,
  acts: ((life: Life) => Promise<void>) | { given: Given; act: (life: Life) => Promise<void> },
) {
  const { act, given } = typeof acts === 'function' ? { act: acts, given: {} } : acts;
  const bed = await gatewayBed(t, {
    simulator: { tokens_per_second: 200 },
    times: { parked_ms: 200, body_ms: 1500, overstay_ms: 300 },
  });
  const life = await bed.open(given);
  const text = 'word '.repeat(30).trim();
  const sibling = life.post(says(text));
  await eventually('its call', () => life.journal.trajectory.calls.length > 0);
  await act(life);
  const { choices } = (await (await sibling).json()) as {
    choices: { message: { content: string } }[];
  };
  assert.equal(choices[0]!.message.content, text);
  return { ...bed, life };
}
