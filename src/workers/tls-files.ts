import { createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ClientConfigTLS } from '@temporalio/envconfig';
import { tlsSetting } from '../temporal/server-tls.js';

const SOURCES = {
  serverCACert: { what: 'the certificate of the authority', name: 'server_ca_cert' },
  clientCert: { what: 'the client certificate', name: 'client_cert' },
  clientKey: { what: 'the client key', name: 'client_key' },
} as const;

type Part = keyof typeof SOURCES;
/** What it is for people, and its text. */
type Pem = { place: string; text: string };

/**
 * The settings of TLS with the contents of their files. Throws by name for what no connection can use: each of the
 * clients has its own words for that, or waits for a server.
 */
export function readTlsFiles(tls: ClientConfigTLS): ClientConfigTLS {
  if (tls.disabled === true) return tls;
  const [authority, cert, key] = (['serverCACert', 'clientCert', 'clientKey'] as const).map(
    (part) => read(part, tls),
  );
  if (authority) certificateIn(authority);
  if (cert && !key) throw lacking('clientCert', 'clientKey');
  if (key && !cert) throw lacking('clientKey', 'clientCert');
  if (cert && key && !certificateIn(cert).checkPrivateKey(keyIn(key)))
    throw new Error(
      `${key.place} does not belong to ${cert.place}: name the key that it was made with`,
    );
  return {
    ...tls,
    ...(authority && { serverCACert: { data: authority.text } }),
    ...(cert && { clientCert: { data: cert.text } }),
    ...(key && { clientKey: { data: key.text } }),
  };
}

function read(part: Part, tls: ClientConfigTLS): Pem | undefined {
  const source = tls[part];
  if (source === undefined) return undefined;
  const { what, name } = SOURCES[part];
  if (!('path' in source)) {
    const place = `${what} (${tlsSetting(`${name}_data`)})`;
    return { place, text: Buffer.from(source.data).toString() };
  }
  const place = `${what} ${source.path} (${tlsSetting(`${name}_path`)})`;
  try {
    return { place, text: readFileSync(source.path, 'utf8') };
  } catch (cause) {
    throw new Error(`cannot read ${place}`, { cause });
  }
}

function certificateIn(pem: Pem): X509Certificate {
  try {
    return new X509Certificate(pem.text);
  } catch (cause) {
    throw new Error(`${pem.place}: expected a certificate in PEM, got ${kindOf(pem.text)}`, {
      cause,
    });
  }
}

function keyIn(pem: Pem): ReturnType<typeof createPrivateKey> {
  const kind = kindOf(pem.text);
  if (/ENCRYPTED/.test(pem.text))
    throw new Error(
      `${pem.place}: expected a key without a passphrase, got ${kind}; openssl pkey -in FILE -out FILE removes it`,
    );
  try {
    return createPrivateKey(pem.text);
  } catch (cause) {
    throw new Error(`${pem.place}: expected a private key in PEM, got ${kind}`, { cause });
  }
}

/** Nothing of the text itself is told, since it may be a key. */
function kindOf(text: string): string {
  const [, kind] = /-----BEGIN ([A-Z0-9 ]+)-----/.exec(text) ?? [];
  if (kind !== undefined) return `"${kind}"`;
  return text.trim() === '' ? 'nothing' : 'a text without -----BEGIN';
}

const lacking = (there: Part, missing: Part): Error =>
  new Error(
    `${SOURCES[there].what} (${tlsSetting(`${SOURCES[there].name}_path`)}) needs ${SOURCES[missing].what} (${tlsSetting(`${SOURCES[missing].name}_path`)}): name both, or none`,
  );
