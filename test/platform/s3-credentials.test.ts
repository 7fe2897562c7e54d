/** Whose credentials sign requests to a bucket: the first place that is there, in one order, and renewed in time. */
import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import type { IncomingMessage } from 'node:http';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { afterEach, describe, test } from 'node:test';
import { text } from 'node:stream/consumers';
import { createBucket } from '../../src/platform/s3/bucket.js';
import { temporaryFolder } from '../fakes/temporary-store.js';

const HOUR_MS = 3_600_000;
/** Less than this before their end they are asked for again. */
const SOON_MS = 240_000;
const ROLE = '/latest/meta-data/iam/security-credentials/';
const XML = { 'content-type': 'text/xml' };

interface Scene {
  /** Of each request to the bucket: the key and the session token that signed it. */
  signed: string[];
  /** Places that were asked. */
  asked: string[];
  /** How long what a place gives is good. */
  lasts: { ms: number };
  /** These answer 500. */
  broken: Set<string>;
  /** One request. */
  ask: () => Promise<unknown>;
}

const before = { ...process.env };
afterEach(() => {
  for (const name of Object.keys(process.env))
    if (!(name in before)) Reflect.deleteProperty(process.env, name);
  Object.assign(process.env, before);
});

/** A server that is the bucket and every place which gives credentials. All of them are there. */
async function scene(t: TestContext): Promise<Scene> {
  const [signed, asked, broken]: [string[], string[], Set<string>] = [[], [], new Set()];
  const lasts = { ms: HOUR_MS };
  const given = (name: string) => ({
    AccessKeyId: `key-${name}`,
    SecretAccessKey: 'secret-of-a-place',
    Token: `token-${name}`,
    Expiration: new Date(Date.now() + lasts.ms).toISOString(),
  });
  const answered = async (request: IncomingMessage): Promise<{ place: string; body: string }> => {
    const { method = '', url = '', headers } = request;
    const sent = await text(request);
    if (url === '/container')
      return {
        place: `container ${headers.authorization}`,
        body: JSON.stringify(given('container')),
      };
    if (url === '/latest/api/token') return { place: `${method} token`, body: 'session' };
    if (url === ROLE) return { place: 'role', body: 'trainer' };
    if (url === `${ROLE}trainer`)
      return {
        place: `host ${String(headers['x-aws-ec2-metadata-token'])}`,
        body: JSON.stringify({ Code: 'Success', ...given('host') }),
      };
    if (sent.includes('AssumeRoleWithWebIdentity')) {
      const { Token: SessionToken, ...others } = given('web');
      const fields = Object.entries({ ...others, SessionToken }).map(
        ([name, value]) => `<${name}>${value}</${name}>`,
      );
      const token = new URLSearchParams(sent).get('WebIdentityToken') ?? '';
      return {
        place: `web ${token}`,
        body: `<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>${fields.join('')}</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`,
      };
    }
    const key = /Credential=([^/]+)/.exec(headers.authorization ?? '')?.[1] ?? 'nobody';
    signed.push(`${key} ${String(headers['x-amz-security-token'])}`);
    return { place: '', body: '' };
  };
  const server = createServer((request, response) => {
    void answered(request).then(({ place, body }) => {
      if (place === '') return response.writeHead(200, XML).end('content');
      asked.push(place);
      const status = broken.has(place.split(' ')[0] ?? '') ? 500 : 200;
      return response.writeHead(status, body.startsWith('<') ? XML : {}).end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const file = path.join(await temporaryFolder(t), 'identity');
  await writeFile(file, 'web-token');
  for (const name of Object.keys(process.env))
    if (name.startsWith('AWS_')) Reflect.deleteProperty(process.env, name);
  Object.assign(process.env, {
    ...{ AWS_REGION: 'us-east-1', AWS_ENDPOINT_URL_STS: url },
    ...{
      AWS_ACCESS_KEY_ID: 'key-env',
      AWS_SECRET_ACCESS_KEY: 'secret-of-env',
      AWS_SESSION_TOKEN: 'token-env',
    },
    ...{
      AWS_CONTAINER_CREDENTIALS_FULL_URI: `${url}/container`,
      AWS_CONTAINER_AUTHORIZATION_TOKEN: 'of-the-pod',
    },
    ...{
      AWS_WEB_IDENTITY_TOKEN_FILE: file,
      AWS_ROLE_ARN: 'arn:aws:iam::123456789012:role/trainer',
    },
    ...{ AWS_EC2_METADATA_SERVICE_ENDPOINT: url },
    ...{ AWS_CONFIG_FILE: '/nowhere', AWS_SHARED_CREDENTIALS_FILE: '/nowhere' },
  });
  const bucket = createBucket({ bucket: 'my-team', prefix: '', endpoint: url });
  t.after(() => {
    bucket.close();
    server.closeAllConnections();
    server.close();
  });
  return { signed, asked, lasts, broken, ask: () => bucket.get('one') };
}

const ENVIRONMENT = ['AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN'];
const CONTAINER = ['AWS_CONTAINER_CREDENTIALS_FULL_URI'];
const WEB = ['AWS_WEB_IDENTITY_TOKEN_FILE'];

function without(...names: string[]): void {
  for (const name of names) Reflect.deleteProperty(process.env, name);
}

describe('requests to a bucket are signed', () => {
  test('by the keys of the environment before all else, with their session token', async (t) => {
    const { signed, asked, ask } = await scene(t);
    // The SDK's own chain would leave the keys for it.
    process.env['AWS_PROFILE'] = 'of-a-shell';
    await ask();
    assert.deepEqual([signed, asked], [['key-env token-env'], []]);
  });

  test("by those of the container's endpoint next, which is told the pod's token", async (t) => {
    const { signed, asked, ask } = await scene(t);
    without(...ENVIRONMENT);
    await ask();
    assert.deepEqual(
      [signed, asked],
      [['key-container token-container'], ['container of-the-pod']],
    );
  });

  test('then by the role of a web identity', async (t) => {
    const { signed, asked, ask } = await scene(t);
    without(...ENVIRONMENT, ...CONTAINER);
    await ask();
    assert.deepEqual([signed, asked], [['key-web token-web'], ['web web-token']]);
  });

  test('last by the role of the host, asked with a session (IMDSv2)', async (t) => {
    const { signed, asked, ask } = await scene(t);
    without(...ENVIRONMENT, ...CONTAINER, ...WEB);
    await ask();
    assert.deepEqual(
      [signed, asked],
      [['key-host token-host'], ['PUT token', 'role', 'host session']],
    );
  });

  test('by nobody where a host has no sessions: IMDSv1 is not asked', async (t) => {
    const { signed, asked, broken, ask } = await scene(t);
    without(...ENVIRONMENT, ...CONTAINER, ...WEB);
    broken.add('PUT');
    await assert.rejects(ask(), /no credentials from the host's role \(IMDSv2\): /);
    assert.deepEqual([signed, asked.filter((place) => place !== 'PUT token')], [[], []]);
  });

  test('by the same credentials while they are good, and by new ones before they end', async (t) => {
    const { asked, lasts, ask } = await scene(t);
    without(...ENVIRONMENT);
    await ask();
    await ask();
    assert.equal(asked.length, 1);
    const other = await scene(t);
    without(...ENVIRONMENT);
    other.lasts.ms = SOON_MS;
    await other.ask();
    await other.ask();
    assert.equal(lasts.ms, HOUR_MS);
    assert.ok(other.asked.length >= 2, `asked ${other.asked.length} times`);
  });

  test('by no other identity than that of the first place, also if it fails', async (t) => {
    const { signed, asked, broken, ask } = await scene(t);
    without(...ENVIRONMENT);
    broken.add('container');
    await assert.rejects(
      ask(),
      /bucket my-team: Error: no credentials from the container's endpoint \(AWS_CONTAINER_\S+ or \S+\): /,
    );
    assert.deepEqual([signed, asked.filter((place) => !place.startsWith('container'))], [[], []]);
  });

  test('by nobody where there is none, and the error names the places', async (t) => {
    const { ask } = await scene(t);
    without(...ENVIRONMENT, ...CONTAINER, ...WEB);
    process.env['AWS_EC2_METADATA_DISABLED'] = 'true';
    await assert.rejects(
      ask(),
      /no credentials: expected AWS_ACCESS_KEY_ID and .*IMDSv2\), got none of them/,
    );
  });
});
