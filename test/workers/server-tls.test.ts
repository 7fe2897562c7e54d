/**
 * A connection to a Temporal server that TLS keeps from being made: commands, workers, `check` and Python clients say the
 * same cause, and the same next step.
 */
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import type { Http2SecureServer, Http2Server, ServerHttp2Stream } from 'node:http2';
import { createSecureServer, createServer } from 'node:http2';
import { readFileSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { after, before, describe, test } from 'node:test';
import { pino } from 'pino';
import { connectServer } from '../../src/client/server.js';
import { describeError } from '../../src/platform/errors.js';
import { checkTemporal } from '../../src/workers/check/check-temporal.js';
import { Config } from '../../src/workers/config.js';
import { connect } from '../../src/workers/connect.js';
import { connectionSettings } from '../../src/workers/connection-settings.js';
import type { Authority, Pair } from '../harness/certificates.js';
import { makeAuthority, noOpenssl, selfSigned } from '../harness/certificates.js';
import { NO_PYTHON, startPython } from '../../lab/bed/command.js';
import type { TemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { makeTemporaryDirectory } from '../../lab/bed/temporary-directory.js';
import { within } from '../../lab/bed/waiting.js';

type Settings = Record<string, string>;

interface Case {
  what: string;
  /** What the server is; absent: none is asked. */
  port?: () => Promise<number>;
  settings: () => Settings;
  says: RegExp;
  next: RegExp;
}

const CA = /in TEMPORAL_TLS_SERVER_CA_CERT_PATH, or tls\.server_ca_cert_path of temporal\.toml$/;
const OWN = 'TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or in temporal.toml';

describe('a Temporal server', { skip: noOpenssl }, () => {
  let folder: TemporaryDirectory;
  let ours: Authority;
  let others: Authority;
  let server: Pair;
  const ends: (() => unknown)[] = [];
  const variables = { ...process.env };

  before(async () => {
    folder = await makeTemporaryDirectory('server-tls');
    ours = makeAuthority(folder.path, 'ours');
    others = makeAuthority(folder.path, 'others');
    server = ours.sign('server');
  });
  after(async () => {
    process.env = variables;
    for (const end of ends) await end();
    await folder.remove();
  });

  const contents = ({ cert, key }: Pair) => ({ cert: readFileSync(cert), key: readFileSync(key) });
  const listening = async (one: Http2Server | Http2SecureServer): Promise<number> => {
    one.on('stream', (stream: ServerHttp2Stream) => {
      stream.on('error', () => undefined);
      stream.respond(answer, { endStream: true });
    });
    one.on('sessionError', () => undefined);
    one.listen(0, '127.0.0.1');
    await once(one, 'listening');
    ends.push(() => one.close());
    return (one.address() as AddressInfo).port;
  };
  /** Of an old server, which the SDK takes for an answer. */
  let answer: Record<string, string | number> = {};
  const answering = (status: string, message: string): void => {
    answer = {
      ':status': 200,
      'content-type': 'application/grpc',
      'grpc-status': status,
      'grpc-message': message,
    };
  };
  answering('12', 'unknown method');
  const secure =
    (own: () => Pair, options: object = {}) =>
    () =>
      listening(createSecureServer({ ...contents(own()), ...options }));
  const plain = () => listening(createServer());
  /** Its alerts are those of most servers; Node.js closes the connection without one. */
  const withAlerts =
    (...args: string[]) =>
    async (): Promise<number> => {
      const given = ['-cert', server.cert, '-key', server.key, '-CAfile', ours.file, '-alpn', 'h2'];
      const verify = ['-Verify', '2', '-verify_return_error'];
      const child = spawn(
        'openssl',
        ['s_server', '-accept', '127.0.0.1:0', ...given, ...verify, ...args],
        { stdio: ['pipe', 'pipe', 'ignore'] },
      );
      ends.push(() => child.kill('SIGKILL'));
      let said = '';
      for await (const part of child.stdout.setEncoding('utf8')) {
        said += part as string;
        const [, port] = /ACCEPT \S*?:(\d+)/.exec(said) ?? [];
        if (port === undefined) continue;
        child.stdout.resume();
        return Number(port);
      }
      throw new Error(`openssl s_server: ${said}`);
    };

  const authority = (of: Authority = ours): Settings => ({
    TEMPORAL_TLS_SERVER_CA_CERT_PATH: of.file,
  });
  const own = ({ cert, key }: Pair): Settings => ({
    ...authority(),
    TEMPORAL_TLS_CLIENT_CERT_PATH: cert,
    TEMPORAL_TLS_CLIENT_KEY_PATH: key,
  });
  const file = (name: string, text: string): string => {
    const written = path.join(folder.path, name);
    writeFileSync(written, text);
    return written;
  };

  const ofServers: Case[] = [
    {
      what: 'that another authority has signed',
      port: secure(() => server),
      settings: () => authority(others),
      says: /is not accepted: /,
      next: CA,
    },
    {
      what: 'whose authority is not named',
      port: secure(() => server),
      settings: () => ({ TEMPORAL_TLS: 'true' }),
      says: /is not accepted: /,
      next: CA,
    },
    {
      what: 'whose certificate nobody has signed',
      port: secure(() => selfSigned(folder.path, 'alone')),
      settings: authority,
      says: /is not accepted: self-signed certificate/,
      next: CA,
    },
    {
      what: 'whose certificate has other names',
      port: secure(() => ours.sign('elsewhere', { host: 'temporal.example' })),
      settings: authority,
      says: /is not accepted: .*(altnames|mismatch)/,
      next: /^write a name that it has in TEMPORAL_TLS_SERVER_NAME, or tls\.server_name of temporal\.toml, or as the address$/,
    },
    {
      what: 'whose certificate has expired',
      port: secure(() => ours.sign('over', { days: -1 })),
      settings: authority,
      says: /is not accepted: certificate has expired/,
      next: /^renew it on the server, or compare the clocks of both machines$/,
    },
    {
      what: 'that wants a client certificate',
      port: withAlerts(),
      settings: authority,
      says: /^it asks for a client certificate, and none is named \(.*CERTIFICATE_REQUIRED\)$/,
      next: new RegExp(`^name one, and its key, in ${OWN}$`),
    },
    {
      what: 'that wants a client certificate by TLS 1.2',
      port: withAlerts('-tls1_2'),
      settings: authority,
      says: /^it asks for a client certificate, and none is named \(.*HANDSHAKE_FAILURE\)$/,
      next: new RegExp(`^name one, and its key, in ${OWN}$`),
    },
    {
      what: 'that wants a client certificate of another authority',
      port: withAlerts(),
      settings: () => own(others.sign('client')),
      says: /^it does not accept the client certificate .*UNKNOWN_CA\)$/,
      next: new RegExp(`^name one that an authority of the server has signed in ${OWN}$`),
    },
    {
      what: 'to which the client certificate has expired',
      port: withAlerts(),
      settings: () => own(ours.sign('former', { days: -1 })),
      says: /^it does not accept the client certificate .*CERTIFICATE_EXPIRED\)$/,
      next: new RegExp(`^renew it, with its key, in ${OWN}$`),
    },
    {
      what: 'that speaks TLS to a plain client',
      port: secure(() => server),
      settings: () => ({}),
      says: /^it speaks TLS/,
      next: /^set TEMPORAL_TLS=true; .*SERVER_CA_CERT_PATH/,
    },
    {
      what: 'that speaks none to a client with TLS',
      port: plain,
      settings: authority,
      says: /^it speaks no TLS/,
      next: /^set TEMPORAL_TLS=false, or remove tls and api_key from temporal\.toml$/,
    },
  ];

  const NAMED = '\\(TEMPORAL_TLS_CLIENT_CERT_PATH, or tls\\.client_cert_path of temporal\\.toml\\)';
  const KEY = '\\(TEMPORAL_TLS_CLIENT_KEY_PATH, or tls\\.client_key_path of temporal\\.toml\\)';
  const ofFiles: Omit<Case, 'port' | 'next'>[] = [
    {
      what: 'is missing',
      settings: () => own({ cert: '/nowhere/client.pem', key: server.key }),
      says: new RegExp(
        `cannot read the client certificate /nowhere/client\\.pem ${NAMED}: .*[Nn]o such file`,
      ),
    },
    {
      what: 'is a folder',
      settings: () => own({ cert: server.cert, key: folder.path }),
      says: new RegExp(`cannot read the client key \\S+ ${KEY}: .*(EISDIR|[Ii]s a directory)`),
    },
    {
      what: 'has no certificate',
      settings: () => ({ TEMPORAL_TLS_SERVER_CA_CERT_PATH: file('ca.txt', 'not a certificate') }),
      says: /the certificate of the authority \S+ \(TEMPORAL_TLS_SERVER_CA_CERT_PATH, .*\): expected a certificate in PEM, got a text without -----BEGIN/,
    },
    {
      what: 'is empty',
      settings: () => own({ cert: file('empty.pem', ''), key: server.key }),
      says: new RegExp(`${NAMED}: expected a certificate in PEM, got nothing`),
    },
    {
      what: 'has a key in place of a certificate',
      settings: () => own({ cert: server.key, key: server.key }),
      says: new RegExp(`${NAMED}: expected a certificate in PEM, got "PRIVATE KEY"`),
    },
    {
      what: 'has a certificate in place of a key',
      settings: () => own({ cert: server.cert, key: server.cert }),
      says: new RegExp(`${KEY}: expected a private key in PEM, got "CERTIFICATE"`),
    },
    {
      what: 'has a broken certificate',
      settings: () => {
        const text = readFileSync(ours.file, 'utf8').replace(/\n\w{20}/, '\n????????????????????');
        return { TEMPORAL_TLS_SERVER_CA_CERT_PATH: file('broken.pem', text) };
      },
      says: /\(TEMPORAL_TLS_SERVER_CA_CERT_PATH, .*\): expected a certificate in PEM/,
    },
    {
      what: 'has a key of another certificate',
      settings: () => own({ cert: ours.sign('client').cert, key: server.key }),
      says: new RegExp(
        `the client key \\S+ ${KEY} does not belong to the client certificate \\S+ ${NAMED}: name the key that it was made with`,
      ),
    },
    {
      what: 'has an encrypted key',
      settings: () => {
        const key = path.join(folder.path, 'encrypted.key');
        const protect = ['-aes256', '-passout', 'pass:secret'];
        execFileSync('openssl', ['pkey', '-in', server.key, ...protect, '-out', key]);
        return own({ cert: server.cert, key });
      },
      says: new RegExp(`${KEY}: expected a key without a passphrase`),
    },
    {
      what: 'is named without the one of its key',
      settings: () => ({ TEMPORAL_TLS_CLIENT_CERT_PATH: server.cert }),
      says: /TEMPORAL_TLS_CLIENT_CERT_PATH.*TEMPORAL_TLS_CLIENT_KEY_PATH.*name both, or none/,
    },
  ];

  const temporal = { profile: null, address: null, namespace: null, task_queue: 'q' };
  const config = { ...Config.shape.temporal.parse({}), ...temporal };
  const log = pino({ level: 'silent' });
  const thrownBy = async (call: () => unknown): Promise<string> => {
    const limited = within({ what: 'a refusal', timeout_ms: 20_000 }, Promise.resolve().then(call));
    return await limited.then(() => 'connected', describeError);
  };
  const asking: Record<string, () => Promise<string>> = {
    command: () =>
      thrownBy(async () => {
        await (await connectServer(connectionSettings({ temporal: config }))).close();
      }),
    worker: () =>
      thrownBy(async () => {
        const { signal } = new AbortController();
        await (await connect({ temporal: config }, { log, signal }))?.connection.close();
      }),
    check: async () => {
      const asked = { file: undefined, store: Promise.resolve(null) };
      const whole = { temporal: config } as Config;
      const [found] = await checkTemporal(whole, asked);
      return `${found?.state}: ${found?.what}; ${found?.remedy ?? ''}`;
    },
  };
  const setting = async ({
    port,
    settings,
  }: Pick<Case, 'port' | 'settings'>): Promise<Settings> => {
    const address = port === undefined ? {} : { TEMPORAL_ADDRESS: `127.0.0.1:${await port()}` };
    const set = { TEMPORAL_CONFIG_FILE: '/nowhere/temporal.toml', ...address, ...settings() };
    process.env = { ...variables, ...set };
    return set;
  };
  const split = (said: string): [string, string] => {
    const text = said.replace(/^(no connection to the Temporal server at \S+|broken): /, '');
    const at = text.indexOf('; ');
    return at < 0 ? [text, ''] : [text.slice(0, at), text.slice(at + 2)];
  };

  test('that accepts a client certificate is connected to by all', async () => {
    const ca = readFileSync(ours.file);
    const port = secure(() => server, { ca, requestCert: true, rejectUnauthorized: true });
    await setting({ port, settings: () => own(ours.sign('client')) });
    assert.equal(await asking['command']?.(), 'connected');
    assert.equal(await asking['worker']?.(), 'connected');
    assert.match((await asking['check']?.()) ?? '', /^broken: namespace default: .*unknown method/);
  });

  for (const { says, next, ...one } of ofServers)
    test(`${one.what} is told by command, worker and check, with one next step`, async () => {
      await setting(one);
      for (const [who, ask] of Object.entries(asking)) {
        const [what, remedy] = split(await ask());
        assert.match(what, says, who);
        assert.match(remedy, next, who);
      }
    });

  test('that ends connections without an alert is not waited for in silence', async () => {
    const options = { ca: readFileSync(ours.file), requestCert: true, rejectUnauthorized: true };
    await setting({
      port: secure(() => server, options),
      settings: () => own(others.sign('client')),
    });
    const said: unknown[] = [];
    const end = new AbortController();
    const told = {
      ...log,
      warn: (facts: unknown) => {
        said.push(facts);
        end.abort();
      },
    } as unknown as typeof log;
    const connected = await connect({ temporal: config }, { log: told, signal: end.signal });
    assert.equal(connected, null);
    assert.match(
      JSON.stringify(said[0]),
      /it ends the connection after the TLS handshake \(.*\), as servers do that want another client certificate/,
    );
  });

  for (const [status, message] of [
    ['16', 'invalid api key'],
    ['7', 'Request unauthorized.'],
  ] as const)
    test(`that refuses a key (${message}) is told by all, with the key's setting`, async (t) => {
      t.after(() => {
        answering('12', 'unknown method');
      });
      answering(status, message);
      await setting({ port: plain, settings: () => ({}) });
      for (const [who, ask] of Object.entries(asking)) {
        const said = await ask();
        assert.match(said, new RegExp(message.replace('.', '\\.')), who);
        assert.match(
          said,
          /; name a key that it accepts in TEMPORAL_API_KEY, or in temporal\.toml$/,
        );
      }
    });

  test('whose address nobody can read ends a worker at once', async () => {
    await setting({ settings: () => ({ TEMPORAL_ADDRESS: 'http://127.0.0.1:7233/x' }) });
    const said = (await asking['worker']?.()) ?? '';
    assert.match(said, /; write host:port, without http:\/\/, .*, in TEMPORAL_ADDRESS$/);
  });

  for (const { what, says, settings } of ofFiles)
    test(`is not asked with a file that ${what}: command, worker and check name it`, async () => {
      await setting({ settings });
      for (const [who, ask] of Object.entries(asking)) assert.match(await ask(), says, who);
    });

  test(
    'is told by the Python client with the same causes and next steps',
    { skip: NO_PYTHON },
    async () => {
      const program = [
        'import asyncio, json, os, sys',
        'from durable_rollouts import connection',
        'for settings in json.load(open(os.environ["CASES"])):',
        '    os.environ.update(settings)',
        '    try:',
        '        asyncio.run(connection.connect(None, None, None))',
        '        print(json.dumps("connected"))',
        '    except ConnectionError as error:',
        '        print(json.dumps(str(error)))',
        '    for name in settings:',
        '        del os.environ[name]',
      ].join('\n');
      const cases: Settings[] = [];
      for (const one of [...ofServers, ...ofFiles]) cases.push(await setting(one));
      process.env = { ...variables, CASES: file('cases.json', JSON.stringify(cases)) };
      const run = startPython(program, { address: '', namespace: 'default' });
      await run.exited;
      const said = run
        .stdout()
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line) as string);
      assert.equal(said.length, cases.length, run.output());
      for (const [at, { what, says, next }] of ofServers.entries()) {
        const [cause, remedy] = split(said[at] ?? '');
        assert.match(cause, says, what);
        assert.match(remedy, next, what);
      }
      for (const [at, { what, says }] of ofFiles.entries())
        assert.match(said[ofServers.length + at] ?? '', says, what);
    },
  );
});
