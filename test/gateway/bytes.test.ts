/** Connections on which something else comes than whole requests: each has a clear answer, and no call beside them notices. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, test } from 'node:test';
import { beside, raw } from './beside.js';
import type { Life } from './gateway-bed.js';
import { says } from './asking.js';

describe('bytes that are no whole request', () => {
  const head = (life: Life, more: string): string =>
    `POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${life.session.key}\r\n${more}\r\n\r\n`;
  const body = JSON.stringify(says('yes'));
  const length = `content-length: ${body.length}`;
  const close = 'connection: close';

  test('a body that never ends is 408', async (t) => {
    await beside(t, async (life) => {
      const got = await raw(life, `${head(life, 'content-length: 500')}{"model"`);
      assert.match(got, /^HTTP\/1\.1 408 /);
      assert.match(got, /expected the whole body within/);
    });
  });

  test('a body in chunks beyond the limit is 413', async (t) => {
    await beside(t, {
      given: { limits: { body: 50_000 } },
      act: async (life) => {
        const part = `${(0x4000).toString(16)}\r\n${'x'.repeat(0x4000)}\r\n`;
        const got = await raw(life, head(life, 'transfer-encoding: chunked') + part.repeat(5));
        assert.match(got, /^HTTP\/1\.1 413 /);
      },
    });
  });

  test('a body in chunks, one behind Expect: 100-continue, and two requests at once are answered', async (t) => {
    await beside(t, async (life) => {
      const chunked = `${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`;
      assert.match(
        await raw(life, head(life, `transfer-encoding: chunked\r\n${close}`) + chunked),
        /"content":"yes"/,
      );
      const expects = await raw(
        life,
        `${head(life, `expect: 100-continue\r\n${close}\r\n${length}`)}${body}`,
      );
      assert.match(expects, /^HTTP\/1\.1 100 [^]*HTTP\/1\.1 200 [^]*"content":"yes"/);
      const both = await raw(
        life,
        head(life, length) + body + head(life, `${length}\r\n${close}`) + body,
      );
      assert.equal(both.match(/"content":"yes"/g)?.length, 2, both);
    });
  });

  test('a packed body is 415, and is not unpacked', async (t) => {
    const packed = gzipSync(body).toString('latin1');
    await beside(t, async (life) => {
      const whole = head(life, `content-encoding: gzip\r\ncontent-length: ${packed.length}`);
      assert.match(
        await raw(life, whole + packed),
        /^HTTP\/1\.1 415 [^]*got \\"gzip\\": send the JSON as it is/,
      );
      const parts = head(life, 'transfer-encoding: gzip, chunked');
      assert.match(await raw(life, `${parts}1\r\nx\r\n0\r\n\r\n`), /^HTTP\/1\.1 415 /);
      const plain = head(life, `content-encoding: identity\r\n${close}\r\n${length}`) + body;
      assert.match(await raw(life, plain), /^HTTP\/1\.1 200 /);
    });
  });

  test('a body that is announced as too large is refused before it is sent', async (t) => {
    await beside(t, async (life) => {
      const got = await raw(life, head(life, 'expect: 100-continue\r\ncontent-length: 9000000'));
      assert.match(got, /^HTTP\/1\.1 413 /);
    });
  });

  test('other expectations, no Host, many headers and a whole address are answered', async (t) => {
    await beside(t, async (life) => {
      const key = `authorization: Bearer ${life.session.key}`;
      const ask = (place: string, ...headers: string[]): Promise<string> =>
        raw(
          life,
          `POST ${place} HTTP/1.1\r\n${[...headers, close, length].join('\r\n')}\r\n\r\n${body}`,
        );
      const many = Array.from({ length: 300 }, (_, k) => `x-${k}: one`);
      for (const got of [
        await ask('/v1/chat/completions', key, 'host: x', 'expect: the-worst'),
        await ask('/v1/chat/completions', key),
        await ask('/v1/chat/completions', ...many, 'host: x', key),
        await ask('http://x/v1/chat/completions?version=1', 'host: x', key),
      ])
        assert.match(got, /^HTTP\/1\.1 200 [^]*"content":"yes"/);
      assert.match(
        await ask('/v1/chat/completions', 'host: x', 'authorization: Bearer no', key),
        /^HTTP\/1\.1 401 /,
      );
    });
  });

  test('two lengths, or a length and chunks, are 400; CONNECT is, too', async (t) => {
    await beside(t, async (life) => {
      for (const more of [
        `${length}\r\ncontent-length: 5`,
        `${length}\r\ntransfer-encoding: chunked`,
      ])
        assert.match(
          await raw(life, head(life, more) + body),
          /^HTTP\/1\.1 400 [^]*"invalid_http"/,
        );
      const tunnel = await raw(life, 'CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\n');
      assert.match(tunnel, /^HTTP\/1\.1 400 [^]*no proxy/);
    });
  });

  test('garbage behind a request leaves its answer whole, and ends the connection', async (t) => {
    await beside(t, async (life) => {
      for (const stream of [false, true]) {
        const text = JSON.stringify({ ...says('yes it is, and it goes on'), stream });
        const got = await raw(
          life,
          `${head(life, `content-length: ${text.length}`)}${text}garbage`,
        );
        assert.match(got, /^HTTP\/1\.1 200 /);
        assert.equal(got.match(/HTTP\/1\.1/g)?.length, 1, got);
        assert.ok(got.endsWith(stream ? 'data: [DONE]\n\n\r\n0\r\n\r\n' : '}'), got);
      }
    });
  });

  test('a client that closes its half has gone, and its call is there for whoever asks again', async (t) => {
    await beside(t, async (life) => {
      const { hostname, port } = new URL(life.url);
      const socket = connect(Number(port), hostname);
      socket.end(head(life, length) + body);
      await once(socket.resume(), 'close');
      const reply = await life.post(body);
      assert.equal(reply.status, 200);
      assert.equal(life.journal.trajectory.calls.length, 2);
    });
  });

  test('HEAD asks what GET says', async (t) => {
    await beside(t, async (life) => {
      const ask = (what: string): Promise<string> =>
        raw(
          life,
          `HEAD ${what} HTTP/1.1\r\nauthorization: Bearer ${life.session.key}\r\n${close}\r\n\r\n`,
        );
      assert.match(await ask('/v1/models'), /^HTTP\/1\.1 200 (?!.*"data")/s);
      assert.match(await ask('/'), /^HTTP\/1\.1 200 /);
      assert.match(await ask('/v1/chat/completions'), /^HTTP\/1\.1 404 /);
    });
  });

  test('no HTTP at all is 400', async (t) => {
    await beside(t, async (life) => {
      assert.match(await raw(life, 'hello\r\n\r\n'), /^HTTP\/1\.1 400 [^]*"invalid_http"/);
      const long = head(life, `x-long: ${'x'.repeat(40_000)}`);
      assert.match(await raw(life, long), /^HTTP\/1\.1 431 [^]*"invalid_http"/);
    });
  });
});
