import assert from 'node:assert/strict';
import { getEventListeners, once } from 'node:events';
import { describe, test, type TestContext } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync, brotliCompressSync, deflateSync } from 'node:zlib';
import { createAllowance } from '../../../src/platform/waits/allowance.js';
import type { Exchange, HttpClientOptions } from '../../../src/platform/http/client.js';
import { createHttpClient } from '../../../src/platform/http/client.js';
import { HttpFailure, type HttpFailureKind } from '../../../src/platform/http/failure.js';
import { retryAfterMs } from '../../../src/platform/http/retry-after.js';
import { keepSecret } from '../../../src/platform/secrets.js';
import { eventually } from '../../../lab/bed/waiting.js';
import { answer, startServer, type Handler } from '../../environments/loopback-server.js';

const signal = new AbortController().signal;
const KEY = 'sk-of-this-test-0123456789';

function clientOf(t: TestContext, options: Partial<HttpClientOptions> = {}) {
  const client = createHttpClient({ connect_timeout_ms: 60_000, ...options });
  t.after(client.close);
  return (exchange: Partial<Exchange> & { url: string }) =>
    client.exchange({ method: 'GET', timeout_ms: 60_000, signal, max_bytes: 100_000, ...exchange });
}

async function serve(handler: Handler) {
  const { url, received } = await startServer(handler);
  return { url: `${url}/path`, received };
}

async function failure(promise: Promise<unknown>, kind: HttpFailureKind): Promise<HttpFailure> {
  const error: unknown = await promise.then(
    () => assert.fail('expected a failure, got an answer'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof HttpFailure, String(error));
  assert.equal(error.kind, kind, error.message);
  return error;
}

const MIB = 2 ** 20;

describe('an answer', () => {
  test('has status, text, headers and cookies, whatever the status', async (t) => {
    const { url } = await serve((_request, response) => {
      response.writeHead(418, { 'x-a': 'b', 'set-cookie': ['c=1', 'd=2'] }).end('short');
    });
    const { status, text, header, set_cookies } = await clientOf(t)({ url });
    assert.deepEqual([status, text, header('x-a'), header('x-b')], [418, 'short', 'b', null]);
    assert.deepEqual(set_cookies, ['c=1', 'd=2']);
  });

  for (const announced of [true, false])
    test(`of more bytes than allowed is refused and not read on, ${announced ? 'announced' : 'in chunks'}`, async (t) => {
      let sent = 0;
      const { url } = await serve((_request, response) => {
        if (announced) response.setHeader('content-length', 500 * MIB);
        const more = (): void => {
          sent += MIB;
          if (sent < 500 * MIB) response.write(Buffer.alloc(MIB, 'x'), more);
        };
        response.on('error', () => undefined);
        more();
      });
      const { message } = await failure(clientOf(t)({ url, max_bytes: 2 * MIB }), 'too_large');
      assert.equal(message, `answered with more than ${2 * MIB} bytes`);
      assert.ok(sent < 20 * MIB, `${sent} bytes were sent`);
    });

  const ENCODINGS = { gzip: gzipSync, br: brotliCompressSync, deflate: deflateSync };
  for (const [encoding, encode] of Object.entries(ENCODINGS)) {
    const encoded =
      (status: number, bytes: number): Handler =>
      (_request, response) => {
        const headers = { 'content-encoding': encoding };
        response.writeHead(status, headers).end(encode(Buffer.alloc(bytes, 'x')));
      };

    test(`in ${encoding}, which was not asked for, is counted decoded`, async (t) => {
      const exchange = clientOf(t);
      const small = await serve(encoded(200, 1000));
      assert.equal((await exchange(small)).text, 'x'.repeat(1000));
      assert.equal(small.received[0]?.headers['accept-encoding'], 'identity');
      const bomb = await serve(encoded(200, 40 * MIB));
      await failure(exchange(bomb), 'too_large');
    });

    test(`of a refusal in ${encoding} has its beginning read, however much there is`, async (t) => {
      const { url } = await serve(encoded(400, 40 * MIB));
      const { status, text } = await clientOf(t)({ url });
      assert.equal(status, 400);
      assert.equal(text, 'x'.repeat(64 * 1024));
    });
  }

  test('in an unknown encoding is unreadable', async (t) => {
    const { url } = await serve((_request, response) => {
      response.writeHead(200, { 'content-encoding': 'gzip, gzip, gzip' }).end('?');
    });
    const { message } = await failure(clientOf(t)({ url }), 'unreadable');
    assert.equal(message, 'answered with content-encoding "gzip, gzip, gzip", expected none');
  });

  test('that refuses and never ends is taken as far as it came', async (t) => {
    const { url } = await serve((_request, response) => {
      response.writeHead(503).write('half a sentence');
    });
    const { status, text } = await clientOf(t)({ url });
    assert.deepEqual([status, text], [503, 'half a sentence']);
  });

  for (const status of [301, 302, 303, 307, 308])
    test(`${status} is not followed, and names the host that it leads to`, async (t) => {
      const elsewhere = await startServer(answer(200, 'followed'));
      const { url } = await serve((_request, response) => {
        response.writeHead(status, { location: `${elsewhere.url}/path?token=abc` }).end('moved');
      });
      const { host } = new URL(elsewhere.url);
      const { text, ...seen } = await clientOf(t)({
        url,
        method: 'POST',
        body: '{"prompt":[1,2]}',
      });
      assert.equal(seen.status, status);
      assert.equal(text, `a redirect to ${host}: redirects are not followed`);
      assert.deepEqual(elsewhere.received, []);
    });

  const places: [location: string, named: (asked: string) => string][] = [
    ['/v1/models/?token=abc', (asked) => `${asked}/v1/models/`],
    ['https://127.0.0.1/v1/models?token=abc', () => 'https://127.0.0.1/v1/models'],
    ['https://user:pass@elsewhere:8443/login?token=abc', () => 'elsewhere:8443'],
    ['http://[', () => 'an unknown place'],
  ];
  for (const [location, named] of places)
    test(`a redirect to ${location} is named as far as it helps`, async (t) => {
      const { url } = await serve((_request, response) => {
        response.writeHead(307, { location }).end();
      });
      const { text } = await clientOf(t)({ url });
      const { origin } = new URL(url);
      assert.equal(text, `a redirect to ${named(origin)}: redirects are not followed`);
    });

  test('that quotes a secret of this process comes without it, whatever the status', async (t) => {
    keepSecret(KEY);
    for (const status of [200, 401]) {
      const { url } = await serve(({ headers }, response) => {
        response.writeHead(status).end(JSON.stringify({ headers }));
      });
      const { text } = await clientOf(t)({ url, headers: { authorization: `Bearer ${KEY}` } });
      const { headers } = JSON.parse(text) as { headers: Record<string, string> };
      assert.equal(headers['authorization'], 'Bearer [secret]');
    }
  });

  test('that repeats a secret beyond what is read of an error has no part of it', async (t) => {
    keepSecret(KEY);
    const { url } = await serve((_request, response) => {
      response.writeHead(500).end(`${KEY} `.repeat(10_000));
    });
    const { text } = await clientOf(t)({ url });
    assert.ok(!text.includes('sk-of'), text.slice(-60));
  });
});

describe('an exchange', () => {
  test('has one deadline, for its headers and for its body', async (t) => {
    const silent = await serve(() => undefined);
    const begun = await serve((_request, response) => {
      response.writeHead(200).write('{');
    });
    for (const { url } of [silent, begun]) {
      const { message } = await failure(clientOf(t)({ url, timeout_ms: 60 }), 'late');
      assert.equal(message, 'no answer within 60 ms');
    }
  });

  test('that trickles for ever ends at its deadline', async (t) => {
    const { url } = await serve((_request, response) => {
      const timer = setInterval(() => response.write('x'), 5);
      response.on('close', () => {
        clearInterval(timer);
      });
    });
    await failure(clientOf(t)({ url, timeout_ms: 150 }), 'late');
  });

  test('that is aborted throws the reason, closes the connection and leaves no listener', async (t) => {
    const controller = new AbortController();
    const reason = new Error('enough');
    let closed: Promise<unknown> | undefined;
    const { url } = await serve((_request, response) => {
      closed = once(response, 'close');
      response.writeHead(200).write('{');
      setTimeout(() => {
        controller.abort(reason);
      }, 20);
    });
    await assert.rejects(clientOf(t)({ url, signal: controller.signal }), (e) => e === reason);
    await closed;
    assert.equal(getEventListeners(controller.signal, 'abort').length, 0);
    await assert.rejects(clientOf(t)({ url, signal: controller.signal }), (e) => e === reason);
  });

  test('goes over a connection of those before, which are closed when they have been idle', async (t) => {
    const { url, connections } = await startServer(answer(200, 'x'));
    const exchange = clientOf(t, { keep_alive_ms: 3000 });
    for (let n = 0; n < 10; n++) await exchange({ url });
    // The second, where the first is not free yet when the next exchange begins.
    const { accepted } = connections;
    assert.ok(accepted <= 2, `${accepted} connections`);
    // The server announces a minute.
    await eventually('their end', () => connections.open === 0);
    await exchange({ url });
    assert.equal(connections.accepted, accepted + 1);
  });

  test('has a connection of its own where none is kept', async (t) => {
    const { url, connections } = await startServer(answer(200, 'x'));
    const exchange = clientOf(t, { keep_alive_ms: 0 });
    for (let n = 0; n < 3; n++) await exchange({ url });
    assert.equal(connections.accepted, 3);
  });

  test('that is refused says so by its code', async (t) => {
    for (const host of ['127.0.0.1', 'localhost']) {
      const { message, code } = await failure(clientOf(t)({ url: `http://${host}:1/` }), 'broken');
      assert.match(message, /ECONNREFUSED/);
      assert.equal(code, 'ECONNREFUSED');
    }
  });
});

describe('large answers', () => {
  const large =
    (bytes: number): Handler =>
    (_request, response) => {
      response.setHeader('content-length', bytes);
      response.end(Buffer.alloc(bytes, 'x'));
    };

  test('take turns where together they are more than the allowance; small ones pass', async (t) => {
    const exchange = clientOf(t, {});
    const { url } = await serve(({ url: path }, response) => {
      large(path === '/path/small' ? 100 : 90_000)({} as never, response);
    });
    const allowance = createAllowance(100_000);
    const [first, second] = [allowance.share(), allowance.share()];
    await exchange({ url, share: first });
    let isHere = false;
    const waiting = exchange({ url, share: second }).then(() => (isHere = true));
    await exchange({ url: `${url}/small`, share: allowance.share() });
    await sleep(50);
    assert.equal(isHere, false);
    first.giveBack();
    await waiting;
  });

  test('wait no longer than their deadline', async (t) => {
    const { url } = await serve(large(90_000));
    const allowance = createAllowance(0);
    await allowance.share().take(1, signal);
    await failure(clientOf(t)({ url, timeout_ms: 80, share: allowance.share() }), 'late');
  });

  test('that come too slowly fail, and give others their turn', async (t) => {
    const pace = { grace_ms: 60, bytes_per_ms: 100 };
    const { url } = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 90_000 });
      response.write(Buffer.alloc(70_000, 'x'));
      const timer = setInterval(() => response.write('x'), 5);
      response.on('close', () => {
        clearInterval(timer);
      });
    });
    const { message } = await failure(clientOf(t, { pace })({ url }), 'slow');
    assert.match(message, /^its answer came too slowly: 7\d{4} bytes so far, and less than 100 a/);
  });

  test('that come slowly and not too slowly arrive', async (t) => {
    const pace = { grace_ms: 100, bytes_per_ms: 10 };
    const { url } = await serve((_request, response) => {
      response.setHeader('content-length', 90_000);
      response.write(Buffer.alloc(70_000, 'x'));
      let left = 20_000;
      const timer = setInterval(() => {
        response.write(Buffer.alloc(1000, 'x'));
        left -= 1000;
        if (left === 0) clearInterval(timer);
      }, 20);
    });
    assert.equal((await clientOf(t, { pace })({ url })).text.length, 90_000);
  });
});

test('when to try again is at most a minute off', () => {
  const after = (headers: Record<string, string>) => retryAfterMs((name) => headers[name] ?? null);
  const cases: [Record<string, string>, number | null][] = [
    [{}, null],
    [{ 'retry-after': '3' }, 3000],
    [{ 'retry-after': '0' }, 0],
    [{ 'retry-after': '1e9' }, 60_000],
    [{ 'retry-after': 'Infinity' }, 60_000],
    [{ 'retry-after': '9'.repeat(400) }, 60_000],
    [{ 'retry-after': '-5' }, null],
    [{ 'retry-after': 'soon' }, null],
    [{ 'retry-after': '' }, null],
    [{ 'retry-after': 'Fri, 31 Dec 9999 23:59:59 GMT' }, 60_000],
    [{ 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    // Of a server whose clock is years behind.
    [
      { 'retry-after': 'Fri, 01 Jan 2021 00:00:07 GMT', date: 'Fri, 01 Jan 2021 00:00:00 GMT' },
      7000,
    ],
    [{ 'retry-after': 'Fri, 31 Dec 9999 23:59:59 GMT', date: 'not a date' }, 60_000],
  ];
  for (const [headers, ms] of cases) assert.equal(after(headers), ms, JSON.stringify(headers));
});
