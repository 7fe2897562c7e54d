import { X509Certificate } from 'node:crypto';
import type { Socket } from 'node:net';
import { connect as connectPlainly, isIP } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { connect } from 'node:tls';
import { brokenBy, neverConnected } from '../platform/http/failure.js';
import { certificateAt, UNTRUSTED } from '../platform/http/tls.js';

/**
 * Why a Temporal server is not reached. Its clients (gRPC for Node in commands, Rust in workers) name each failure of TLS
 * in words of their own, or not at all. So one look, with the same certificates, tells for all of them.
 */

/** What a connection is made from: a part of the SDK's options. */
export interface Dialled {
  address: string;
  tls?: boolean | null | Tls | undefined;
  /** With it, TLS is the default. */
  apiKey?: unknown;
}

interface Tls {
  serverNameOverride?: string;
  serverRootCACertificate?: Uint8Array;
  clientCertPair?: { crt: Uint8Array; key: Uint8Array };
}

interface Found {
  what: string;
  /** null: none that follows from TLS. */
  remedy: string | null;
  /** Waiting does not mend it. */
  isFinal: boolean;
}

/** A setting of TLS by both of its names. */
export const tlsSetting = (name: string): string =>
  `TEMPORAL_TLS_${name.toUpperCase()}, or tls.${name} of temporal.toml`;

export const AUTHORITY = `name the file of the authority that signed it in ${tlsSetting('server_ca_cert_path')}`;
const OWN = 'TEMPORAL_TLS_CLIENT_CERT_PATH and TEMPORAL_TLS_CLIENT_KEY_PATH, or in temporal.toml';

const REMEDIES: ReadonlyMap<string | null, string> = new Map([
  ...UNTRUSTED.map((code): [string, string] => [code, AUTHORITY]),
  ['CERT_HAS_EXPIRED', 'renew it on the server, or compare the clocks of both machines'],
  ['CERT_NOT_YET_VALID', 'compare the clocks of both machines'],
  [
    'ERR_TLS_CERT_ALTNAME_INVALID',
    `write a name that it has in ${tlsSetting('server_name')}, or as the address`,
  ],
]);

/** Alerts with which servers answer a client's certificate, or its absence. */
const OF_OWN_CERTIFICATE =
  /_ALERT_.*(CERTIFICATE|UNKNOWN_CA|HANDSHAKE_FAILURE|ACCESS_DENIED|DECRYPT)/;

const LOOK_MS = 2000;
/** As the SDK has it. */
const DEFAULT_PORT = 7233;

/** null: the server answers. */
export async function lookAtServer({ address, tls, apiKey }: Dialled): Promise<Found | null> {
  const dialled = tls ?? apiKey !== undefined;
  const place = /:\d+$/.test(address) ? address : `${address}:${DEFAULT_PORT}`;
  return dialled === false
    ? await lookPlain(place)
    : await lookSecure(place, dialled === true ? {} : dialled);
}

async function lookPlain(address: string): Promise<Found | null> {
  const broken = await greet(address, null);
  if (broken === null) return null;
  if (isNetwork(broken.error)) return ofNetwork(broken.error);
  const certificate = await certificateAt(`https://${address}`);
  if (certificate === null) return ofNetwork(broken.error);
  return {
    what: `it speaks TLS, with ${certificate}`,
    remedy: `set TEMPORAL_TLS=true; and if no public authority signed it, ${AUTHORITY}`,
    isFinal: true,
  };
}

async function lookSecure(address: string, tls: Tls): Promise<Found | null> {
  const { serverNameOverride: servername, serverRootCACertificate: ca, clientCertPair } = tls;
  const broken = await greet(address, {
    ...(servername !== undefined && { servername }),
    ...(ca !== undefined && { ca: Buffer.from(ca) }),
    ...(clientCertPair !== undefined && {
      cert: Buffer.from(clientCertPair.crt),
      key: Buffer.from(clientCertPair.key),
    }),
  });
  if (broken === null) return null;
  const { error, isShaken } = broken;
  if (isNetwork(error)) return ofNetwork(error);
  const { code, message } = brokenBy(error);
  const remedy = REMEDIES.get(code);
  if (remedy !== undefined) {
    const certificate = (await certificateAt(`https://${address}`)) ?? 'its certificate';
    return { what: `${certificate} is not accepted: ${message}`, remedy, isFinal: true };
  }
  if (OF_OWN_CERTIFICATE.test(code ?? '')) return ofOwnCertificate(clientCertPair?.crt, code ?? '');
  if (isShaken) {
    const wanted = clientCertPair === undefined ? 'a' : 'another';
    const what = `it ends the connection after the TLS handshake (${message}), as servers do that want ${wanted} client certificate`;
    return { what, remedy: `name one in ${OWN}`, isFinal: false };
  }
  if ((await greet(address, null)) !== null) return ofNetwork(error);
  return {
    what: `it speaks no TLS (${message})`,
    remedy: 'set TEMPORAL_TLS=false, or remove tls and api_key from temporal.toml',
    isFinal: true,
  };
}

function ofOwnCertificate(own: Uint8Array | undefined, code: string): Found {
  const isFinal = true;
  if (own === undefined)
    return {
      what: `it asks for a client certificate, and none is named (${code})`,
      remedy: `name one, and its key, in ${OWN}`,
      isFinal,
    };
  const { subject, issuer, validTo } = new X509Certificate(own);
  const names = `of ${oneLine(subject)}, issued by ${oneLine(issuer)}`;
  const isOver = Date.parse(validTo) < Date.now() || code.includes('EXPIRED');
  return {
    what: `it does not accept the client certificate ${names}, valid until ${validTo} (${code})`,
    remedy: isOver
      ? `renew it, with its key, in ${OWN}`
      : `name one that an authority of the server has signed in ${OWN}`,
    isFinal,
  };
}

const oneLine = (name: string): string => JSON.stringify(name.replaceAll('\n', ', '));

const LATE = 'ETIMEDOUT';

const isNetwork = (error: Error): boolean =>
  neverConnected(error) !== null || brokenBy(error).code === LATE;

const ofNetwork = (error: Error): Found => ({
  what: brokenBy(error).message,
  remedy: null,
  isFinal: false,
});

interface Broken {
  error: Error;
  /** After the handshake of TLS, or of TCP without it. */
  isShaken: boolean;
}

/** The first words of a client of HTTP/2, with its settings. */
const GREETING = Buffer.concat([
  Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'),
  Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]),
]);
/** The type of the server's first frame, and where it stands. */
const SETTINGS = { type: 4, at: 3 };

/**
 * null: the server has sent its first words of HTTP/2, after which it has accepted all certificates. Of its own clients
 * Node.js tells nothing about a certificate that TLS 1.3 refuses after the handshake. `tls` null: without TLS.
 */
function greet(address: string, tls: ConnectionOptions | null): Promise<Broken | null> {
  const { hostname, port } = new URL(`tcp://${address}`);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    let isShaken = false;
    const begin = (): void => {
      isShaken = true;
      socket.write(GREETING);
    };
    const place = { host, port: Number(port) };
    const name = isIP(host) === 0 ? { servername: host } : {};
    const socket: Socket =
      tls === null
        ? connectPlainly(place, begin)
        : connect({ ...place, ...name, ALPNProtocols: ['h2'], ...tls }, begin);
    const end = (broken: Broken | null): void => {
      clearTimeout(timer);
      resolve(broken);
      socket.destroy();
    };
    const fail = (error: Error): void => {
      end({ error, isShaken });
    };
    const timer = setTimeout(() => {
      fail(Object.assign(new Error(`no answer within ${LOOK_MS} ms`), { code: LATE }));
    }, LOOK_MS);
    socket.once('data', (bytes: Buffer) => {
      if (bytes[SETTINGS.at] === SETTINGS.type) end(null);
      else fail(new Error('it speaks no HTTP/2'));
    });
    // It may come again while the socket is destroyed.
    socket.on('error', fail);
    socket.once('close', () => {
      fail(new Error('it closed the connection'));
    });
  });
}
