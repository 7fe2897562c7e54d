import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { ClientConnectConfig, ClientConfigTLS } from '@temporalio/envconfig';
import { ADDRESS_VARIABLE, DIRECT_CHANNEL } from '../temporal/server-address.js';
import { keepSecret } from '../platform/secrets.js';
import type { Config } from './config.js';
import { readFileSync } from 'node:fs';
import { tlsSetting } from '../temporal/server-tls.js';

/** A deployment's Temporal server, for workers and clients alike. */
export interface ConnectionSettings {
  options: ClientConnectConfig['connectionOptions'] & {
    address: string;
    channelArgs: typeof DIRECT_CHANNEL;
  };
  namespace: string;
  address_from: string;
  /** Differs as soon as certificates, keys or metadata do. */
  trust: string;
  again: () => ConnectionSettings;
}

/** Address and namespace: temporal.yaml's, else TEMPORAL_* variables and temporal.toml, else the local default. */
export function connectionSettings({ temporal }: Pick<Config, 'temporal'>): ConnectionSettings {
  const { profile, address, namespace } = temporal;
  const loaded = loadProfile(profile);
  const found = toClientOptions({
    ...loaded,
    ...(loaded.tls && { tls: readTlsFiles(loaded.tls) }),
  });
  keepSecretsOf(found);
  const { tls, apiKey, metadata } = found.connectionOptions;
  return {
    options: {
      ...found.connectionOptions,
      channelArgs: DIRECT_CHANNEL,
      address: address ?? found.connectionOptions.address ?? '127.0.0.1:7233',
    },
    namespace: namespace ?? found.namespace ?? 'default',
    address_from: settingOf({ own: address, found: found.connectionOptions.address }),
    trust: createHash('sha256')
      .update(JSON.stringify([tls, apiKey, metadata]))
      .digest('hex'),
    again: () => connectionSettings({ temporal }),
  };
}

const OWN = 'temporal.address of temporal.yaml';

function settingOf({ own, found }: { own: string | null; found: string | undefined }): string {
  if (own !== null) return OWN;
  if ((process.env[ADDRESS_VARIABLE] ?? '') !== '') return ADDRESS_VARIABLE;
  return found === undefined ? `${ADDRESS_VARIABLE} or ${OWN}` : 'temporal.toml';
}

const SECRET_NAME = /auth|key|token|secret|password|cookie/i;

function keepSecretsOf({ connectionOptions }: ClientConnectConfig): void {
  const { apiKey, metadata = {} } = connectionOptions;
  if (typeof apiKey === 'string') keepSecret(apiKey);
  for (const [name, value] of Object.entries(metadata)) {
    if (SECRET_NAME.test(name) && typeof value === 'string') keepSecret(value);
  }
}

function loadProfile(profile: string | null): ReturnType<typeof loadClientConfigProfile> {
  try {
    return loadClientConfigProfile(profile === null ? {} : { profile });
  } catch (cause) {
    const which = profile === null ? 'the default profile' : `profile ${profile}`;
    throw new Error(`cannot read ${which} of temporal.toml (TEMPORAL_CONFIG_FILE names it)`, {
      cause,
    });
  }
}

const SOURCES = {
  serverCACert: { what: 'the certificate of the authority', name: 'server_ca_cert' },
  clientCert: { what: 'the client certificate', name: 'client_cert' },
  clientKey: { what: 'the client key', name: 'client_key' },
} as const;

type Part = keyof typeof SOURCES;
type Pem = { place: string; text: string };

/** Throws by name for what no connection can use: each client has its own words for that, or waits for a server. */
function readTlsFiles(tls: ClientConfigTLS): ClientConfigTLS {
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

function lacking(...parts: [there: Part, missing: Part]): Error {
  const named = parts.map((part) => {
    const { what, name } = SOURCES[part];
    return `${what} (${tlsSetting(`${name}_path`)})`;
  });
  return new Error(`${named.join(' needs ')}: name both, or none`);
}
