/** TLS between a worker and its database: what is trusted is what the URL names, and what is not says why and what helps. */
import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { after, before, describe, test } from 'node:test';
import type { OpenStore } from '../../src/trajectories/trajectory-store.js';
import type { PostgresStore } from '../fakes/stores.js';
import { endServer, postgresStore } from '../fakes/stores.js';
import { REF, temporaryFolder } from '../fakes/temporary-store.js';
import type { PostgresServer } from '../../lab/bed/postgres-server.js';
import { noPostgres, startPostgres } from '../../lab/bed/postgres-server.js';

const noOpenssl = spawnSync('openssl', ['version']).status === 0 ? false : 'needs openssl';
const never = new AbortController().signal;

/** PostgreSQL's user where root runs the tests: it alone may read its key. */
const OTHER_USER = 65_534;

const openssl = (folder: string, ...args: string[]): void => {
  execFileSync('openssl', args, { cwd: folder, stdio: 'pipe' });
};

function makeAuthority(folder: string, name: string): void {
  const subject = ['-subj', `/CN=authority ${name}`, '-days', '2'];
  openssl(
    folder,
    'req',
    '-x509',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    `${name}.key`,
    '-out',
    `${name}.pem`,
    ...subject,
  );
}

function makeServerCertificate(folder: string): void {
  openssl(
    folder,
    'req',
    '-newkey',
    'ec',
    '-pkeyopt',
    'ec_paramgen_curve:P-256',
    '-nodes',
    '-keyout',
    'server.key',
    '-out',
    'server.csr',
    '-subj',
    '/CN=database',
  );
  writeFileSync(path.join(folder, 'names'), 'subjectAltName=IP:127.0.0.1\n');
  openssl(
    folder,
    'x509',
    '-req',
    '-in',
    'server.csr',
    '-CA',
    'ours.pem',
    '-CAkey',
    'ours.key',
    '-CAcreateserial',
    '-days',
    '2',
    '-extfile',
    'names',
    '-out',
    'server.pem',
  );
  chmodSync(path.join(folder, 'server.key'), 0o600);
  if (process.getuid?.() === 0) chownSync(path.join(folder, 'server.key'), OTHER_USER, OTHER_USER);
}

interface Encrypted extends PostgresStore {
  /** Connects to it as its URL says, with these parameters. */
  connect: (parameters: Record<string, string>, host?: string) => OpenStore;
  file: (name: string) => string;
}

interface Authorities {
  server: PostgresServer;
  file: (name: string) => string;
}

async function startEncrypted(t: Pick<TestContext, 'after'>): Promise<Authorities> {
  const folder = await temporaryFolder(t);
  chmodSync(folder, 0o755);
  for (const name of ['ours', 'theirs']) makeAuthority(folder, name);
  makeServerCertificate(folder);
  const file = (name: string): string => path.join(folder, name);
  const server = await startPostgres({
    ssl: 'on',
    ssl_cert_file: file('server.pem'),
    ssl_key_file: file('server.key'),
  });
  return { server, file };
}

async function storeOf(t: TestContext, { server, file }: Authorities): Promise<Encrypted> {
  const own = await postgresStore(t, server);
  return {
    ...own,
    file,
    connect: (parameters, host = '127.0.0.1') => {
      const url = server.url.replace('127.0.0.1', host);
      return own.open({ url: `${url}?${new URLSearchParams(parameters).toString()}` });
    },
  };
}

const ready = (store: OpenStore): Promise<void> =>
  store.ready({ say: () => assert.fail('it does not pass by itself'), signal: never });

describe('a database that speaks TLS', { skip: noPostgres || noOpenssl }, () => {
  const ends: (() => unknown)[] = [];
  let authorities: Authorities;
  before(async () => {
    authorities = await startEncrypted({ after: (end) => void ends.push(end as () => unknown) });
  });
  after(async () => {
    await authorities.server.stop();
    for (const end of ends) await end();
  });
  const encrypted = (t: TestContext): Promise<Encrypted> => storeOf(t, authorities);

  test('is spoken to in TLS alone where the URL names the authority that signed its certificate', async (t) => {
    const own = await encrypted(t);
    const opened = own.connect({ sslmode: 'verify-full', sslrootcert: own.file('ours.pem') });
    await ready(opened);
    await (await opened.store.claim(REF, { activity: 'playTurns' })).commit();
    const connections = await own.query(
      `select distinct s.ssl from pg_stat_ssl s join pg_stat_activity a using (pid)
        where a.application_name = 'durable-rollouts'`,
    );
    assert.deepEqual(connections, [{ ssl: true }]);
  });

  test('is refused under another authority, under none, and by another name than its own', async (t) => {
    const own = await encrypted(t);
    for (const name of ['theirs', null]) {
      const root = name === null ? {} : { sslrootcert: own.file(`${name}.pem`) };
      await assert.rejects(
        ready(own.connect({ sslmode: 'verify-full', ...root })),
        /certificate.*: name the authority that signed the server’s certificate as sslrootcert/,
      );
    }
    const named = { sslmode: 'verify-full', sslrootcert: own.file('ours.pem') };
    await assert.rejects(
      ready(own.connect(named, 'localhost')),
      /localhost.*: connect to a name that is in the server’s certificate/,
    );
  });

  test('is refused where the file of the authority is not there, naming the parameters', async (t) => {
    const own = await encrypted(t);
    const nowhere = { sslmode: 'verify-full', sslrootcert: own.file('nowhere.pem') };
    await assert.rejects(
      ready(own.connect(nowhere)),
      /nowhere\.pem.*: sslrootcert, sslcert and sslkey in the URL name files/,
    );
  });
});

describe('a database that speaks no TLS', { skip: noPostgres }, () => {
  endServer();

  test('is refused where the URL asks for it', async (t) => {
    const own = await postgresStore(t);
    await assert.rejects(
      ready(own.open({ url: `${own.server.url}?sslmode=verify-full` })),
      /does not support SSL connections: switch ssl on in the server, or leave sslmode out/,
    );
  });
});
