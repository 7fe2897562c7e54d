import { isIP } from 'node:net';
import { connect } from 'node:tls';
import { brokenBy, HttpFailure } from './failure.js';

/** Why a connection failed that waiting does not mend: the two sides do not agree on TLS. */

export const UNTRUSTED = [
  'DEPTH_ZERO_SELF_SIGNED_CERT',
  'SELF_SIGNED_CERT_IN_CHAIN',
  'UNABLE_TO_GET_ISSUER_CERT',
  'UNABLE_TO_GET_ISSUER_CERT_LOCALLY',
  'UNABLE_TO_VERIFY_LEAF_SIGNATURE',
] as const;

const REMEDIES: ReadonlyMap<string | null, string> = new Map([
  ...UNTRUSTED.map((code): [string, string] => [
    code,
    'start this process with NODE_EXTRA_CA_CERTS=<PEM file of the authority that signed it>',
  ]),
  ['CERT_HAS_EXPIRED', 'it must be renewed'],
  ['CERT_NOT_YET_VALID', 'compare the clocks of both machines'],
  ['ERR_TLS_CERT_ALTNAME_INVALID', 'write the URL with a name that the certificate has'],
]);

/** Some releases of Node.js add a remedy of their own, for another kind of certificate. */
const HINT = /; if the root CA is installed locally[^(]*(?= \(|$)/;

/** Errors of plain HTTP to a server that speaks TLS: it closes the connection, or its alert is no HTTP. */
const CLOSED: ReadonlySet<string | null> = new Set([
  'UND_ERR_SOCKET',
  'ECONNRESET',
  'HPE_INVALID_CONSTANT',
]);

const PROBE_MS = 1000;

/** A failed connection's error, with certificate, scheme and remedy where they are the reason. */
export async function explained(error: unknown, url: string): Promise<unknown> {
  const { protocol } = new URL(url);
  const { code, message } = brokenBy(error);
  const failure = (what: string): HttpFailure =>
    new HttpFailure(what, { kind: 'tls', code, cause: error });
  const remedy = REMEDIES.get(code);
  if (remedy !== undefined) {
    const certificate = (await certificateAt(url)) ?? 'its certificate';
    return failure(`${certificate} is not accepted: ${message.replace(HINT, '')}; ${remedy}`);
  }
  if (protocol === 'https:' && code === 'ERR_SSL_WRONG_VERSION_NUMBER')
    return failure(`it speaks no TLS (${code}): write http:// instead of https:// in its URL`);
  if (protocol !== 'http:' || !CLOSED.has(code)) return error;
  const certificate = await certificateAt(url);
  return certificate === null
    ? error
    : failure(
        `it speaks TLS, with ${certificate} (${message}): write https:// instead of http:// in its URL`,
      );
}

/** The server's certificate, by its names; null: it speaks no TLS, or does not answer. */
export function certificateAt(url: string): Promise<string | null> {
  const { hostname, port, protocol } = new URL(url);
  const host = hostname.replace(/^\[(.*)\]$/, '$1');
  return new Promise((resolve) => {
    const socket = connect({
      host,
      port: Number(port) || (protocol === 'https:' ? 443 : 80),
      ...(isIP(host) === 0 && { servername: host }),
      // Nothing is sent: only the certificate is read.
      rejectUnauthorized: false,
      timeout: PROBE_MS,
    });
    const end = (certificate: string | null): void => {
      socket.destroy();
      resolve(certificate);
    };
    socket.once('secureConnect', () => {
      const { subject, issuer } = socket.getPeerCertificate();
      end(`the certificate of ${nameIn(subject)}, issued by ${nameIn(issuer)}`);
    });
    for (const event of ['timeout', 'error', 'close'] as const)
      socket.once(event, () => {
        end(null);
      });
  });
}

const nameIn = (names: { CN?: string | string[]; O?: string | string[] } | undefined): string =>
  JSON.stringify([names?.CN ?? names?.O ?? 'nobody'].flat().join(', ').slice(0, 100));
