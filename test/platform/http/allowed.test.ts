import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { allowedBy, arePorts, isCidr, isHost } from '../../../src/platform/http/allowed.js';

const allowed = allowedBy([
  { cidr: '10.1.0.0/16', ports: '8000-8999' },
  { cidr: 'fd00::/8', ports: '8000' },
  { host: '*.vllm.ml.svc', ports: '8000' },
  { host: 'gpu-1', ports: '443' },
]);

describe('an address that others name', () => {
  for (const url of [
    'http://10.1.2.3:8000/v1',
    'http://10.1.255.255:8999',
    'http://[fd00::7]:8000/v1',
    'http://a.b.vllm.ml.svc:8000/v1',
    'https://gpu-1/v1',
  ])
    test(`is allowed: ${url}`, () => {
      assert.equal(allowed.refusal(url), null);
    });

  for (const url of [
    'http://10.2.0.1:8000/v1',
    'http://10.1.2.3:9000/v1',
    'http://10.1.2.3/v1',
    'http://[fd00::7]:8001/v1',
    'http://[fe80::7]:8000/v1',
    'http://vllm.ml.svc:9000/v1',
    'http://evilvllm.ml.svc:9000/v1',
    'http://a.vllm.ml.svc.evil.com:9000/v1',
    'http://gpu-1/v1',
    'http://169.254.169.254/latest',
    'http://0x0a020001:8000',
    'http://10.1.0.1@evil.com:7000/v1',
  ])
    test(`is refused: ${url}`, () => {
      assert.match(allowed.refusal(url) ?? '', /expected what `allow` has \(10\.1\.0\.0\/16 ports/);
    });

  test('is read as a connection reads it: other spellings of an address are that address', () => {
    assert.equal(allowed.refusal('http://0x0a010203:8000/v1'), null);
    assert.equal(allowed.refusal('http://167838211:8000/v1'), null);
  });

  test('is allowed where it is named by the whole URL, whatever the rules say', async () => {
    const named = allowedBy([], ['http://localhost:8000/v1']);
    assert.equal(named.refusal('http://localhost:8000/v1'), null);
    assert.equal(await named.refusalNow('http://localhost:8000/v1'), null);
    assert.match(named.refusal('http://localhost:8000/v2') ?? '', /got localhost port 8000/);
    const found = await new Promise((resolve) => {
      named.lookupFor('http://localhost:8000/v1')('localhost', { all: true }, (_, all) => {
        resolve(all);
      });
    });
    assert.ok(Array.isArray(found) && found.length > 0);
  });

  test('is none where nothing is allowed', () => {
    assert.match(allowedBy([]).refusal('http://10.1.2.3:8000') ?? '', /\(nothing\)/);
  });
});

describe('a name that no rule has', () => {
  const loopback = allowedBy([{ cidr: '127.0.0.0/8', ports: '1-65535' }]);

  test('leads where a range allows it, or nowhere', async () => {
    assert.equal(await loopback.refusalNow('http://localhost:8000/v1'), null);
    const refusal = await allowed.refusalNow('http://localhost:8000/v1');
    assert.match(refusal ?? '', /got localhost, which leads to .*127\.0\.0\.1/);
  });

  test('is looked up again for each connection, and only allowed addresses are handed over', async () => {
    const addressOf = (options: object): Promise<unknown> =>
      new Promise((resolve) => {
        loopback.lookupFor('http://localhost:8000')('localhost', options, (error, address) => {
          resolve(error ?? address);
        });
      });
    assert.equal(await addressOf({}), '127.0.0.1');
    assert.deepEqual(await addressOf({ all: true }), [{ address: '127.0.0.1', family: 4 }]);
  });
});

test('rules are read strictly', () => {
  for (const text of ['8000', '1-65535']) assert.ok(arePorts(text));
  for (const text of ['', '8000-', '9-8', '70000', '8000,9000']) assert.ok(!arePorts(text));
  for (const text of ['10.0.0.0/8', '::1/128']) assert.ok(isCidr(text));
  for (const text of ['10.0.0.0', '10.0.0/8', '10.0.0.0/33', '::1/129', '10.0.0.0/8/8', 'a/8'])
    assert.ok(!isCidr(text));
  for (const text of ['gpu-1', '*.ml.svc']) assert.ok(isHost(text));
  for (const text of ['*', 'a.*.b', '10.0.0.1', 'A', 'a..b']) assert.ok(!isHost(text));
});
