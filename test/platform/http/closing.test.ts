import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { LookupFunction } from 'node:net';
import type { Readable } from 'node:stream';
import test from 'node:test';
import { createHttpClient } from '../../../src/platform/http/client.js';
import { startServer } from '../../environments/loopback-server.js';
import { eventually } from '../../../lab/bed/waiting.js';

type Step = () => void;

const thereIs = (what: string, steps: Step[]): Promise<unknown> =>
  eventually(what, () => Promise.resolve(steps.length > 0));

async function takeNext(what: string, steps: Step[]): Promise<void> {
  await thereIs(what, steps);
  steps.shift()!();
}

/** Names are found when the test says so. */
function heldLookup(found: Step[]): LookupFunction {
  return (...[, , done]) => {
    found.push(() => {
      done(null, [{ address: '127.0.0.1', family: 4 }]);
    });
  };
}

const NAME = 'ends each exchange, also one that was connecting when the last connection closed';
test(`a client that is closed ${NAME}`, async (t) => {
  const [ends, names]: [Step[], Step[]] = [[], []];
  const { url } = await startServer((request, response) => {
    response.setHeader('connection', 'close').write('a part');
    if (request.url === '/first') ends.push(() => void response.end());
  });
  const client = createHttpClient({ connect_timeout_ms: 30_000, lookup: heldLookup(names) });
  t.after(client.close);
  const open = async (path: string): Promise<Readable> => {
    const to = `http://engine.test:${new URL(url).port}${path}`;
    const { signal } = new AbortController();
    const opened = await client.openStream(to, { method: 'POST', headers: [], body: '', signal });
    assert.ok('body' in opened);
    return opened.body;
  };
  const first = open('/first');
  await takeNext('the first is connecting', names);
  await thereIs('the first is answered', ends);
  const second = open('/second');
  await thereIs('the second is connecting', names);
  await takeNext('the first ends', ends);
  for await (const chunk of await first) assert.equal(String(chunk), 'a part');
  await takeNext('the second is connected', names);
  const broken = once(await second, 'error');
  await client.close();
  await broken;
});
