import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createPlain } from 'node:http';
import type { Server } from 'node:http';
import { createServer as createTls } from 'node:https';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { createHttpEnvironment } from '../../../src/environments/http/environment.js';
import { createVllmService } from '../../../src/generation/vllm/vllm-service.js';
import { Fault } from '../../../src/model/faults.js';
import type { TemporaryDirectory } from '../../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

const noOpenssl = spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl';
const signal = new AbortController().signal;

describe('a server with which TLS fails', { skip: noOpenssl }, () => {
  let folder: TemporaryDirectory;
  const servers: Server[] = [];
  const ports: Record<'own' | 'plain' | 'closing', number> = { own: 0, plain: 0, closing: 0 };

  const certificate = (name: string, subject: string) => {
    const file = (what: string): string => path.join(folder.path, `${name}.${what}`);
    const given = [
      '-subj',
      `/CN=${subject}`,
      '-addext',
      `subjectAltName=DNS:${subject}`,
      '-days',
      '2',
    ];
    execFileSync(
      'openssl',
      [
        'req',
        '-x509',
        '-newkey',
        'ec',
        '-pkeyopt',
        'ec_paramgen_curve:P-256',
        '-nodes',
        '-keyout',
        file('key'),
        '-out',
        file('pem'),
        ...given,
      ],
      { stdio: 'pipe' },
    );
    return { key: readFileSync(file('key')), cert: readFileSync(file('pem')) };
  };
  const listening = async (server: Server): Promise<number> => {
    servers.push(server.listen(0, '127.0.0.1'));
    await once(server, 'listening');
    return (server.address() as AddressInfo).port;
  };
  before(async () => {
    folder = await makeTemporaryDirectory('tls');
    ports.own = await listening(
      createTls(certificate('own', 'gpu-1.example'), (_, to) => to.end('{}')),
    );
    ports.plain = await listening(createPlain((_, to) => to.end('{}')));
    ports.closing = await listening(createPlain(({ socket }) => socket.destroy()));
  });
  after(async () => {
    for (const server of servers) server.close();
    await folder.remove();
  });

  const OWN = 'the certificate of "gpu-1.example", issued by "gpu-1.example"';
  const cases: [what: string, url: () => string, said: RegExp][] = [
    [
      'whose authority is unknown: the certificate and NODE_EXTRA_CA_CERTS',
      () => `https://127.0.0.1:${ports.own}`,
      new RegExp(
        `${OWN} is not accepted: self-signed certificate \\(DEPTH_ZERO_SELF_SIGNED_CERT\\); start this process with NODE_EXTRA_CA_CERTS=<PEM file of the authority that signed it>$`,
      ),
    ],
    [
      'by https where it speaks plain HTTP: the scheme',
      () => `https://127.0.0.1:${ports.plain}`,
      /it speaks no TLS \(ERR_SSL_WRONG_VERSION_NUMBER\): write http:\/\/ instead of https:\/\/ in its URL$/,
    ],
    [
      'by http where it speaks TLS: the scheme',
      () => `http://127.0.0.1:${ports.own}`,
      new RegExp(
        `it speaks TLS, with ${OWN} \\(.*\\): write https:// instead of http:// in its URL$`,
      ),
    ],
    [
      'that only closes connections: nothing about TLS',
      () => `http://127.0.0.1:${ports.closing}`,
      /other side closed \(UND_ERR_SOCKET\)$/,
    ],
  ];
  for (const [what, url, said] of cases) {
    test(`an engine ${what}`, async () => {
      const limits = { first_token_timeout_ms: 5000, idle_timeout_ms: 5000 };
      const service = createVllmService({ base_url: `${url()}/v1`, api_key: null, ...limits });
      const error: unknown = await service.describe(signal).catch((thrown: unknown) => thrown);
      await service.close();
      assert.ok(error instanceof Fault && error.type === 'GenerationUnavailable', String(error));
      assert.match(error.message, said);
    });

    test(`an environment ${what}`, async () => {
      const environment = createHttpEnvironment({ url: url(), timeout_ms: 5000 });
      const error: unknown = await environment.health(signal).catch((thrown: unknown) => thrown);
      await environment.close();
      assert.ok(error instanceof Fault && error.type === 'EnvironmentUnavailable', String(error));
      assert.match(error.message, said);
    });
  }
});
