import { createHash } from 'node:crypto';
import { loadClientConfigProfile, toClientOptions } from '@temporalio/envconfig';
import type { ClientConnectConfig } from '@temporalio/envconfig';
import { ADDRESS_VARIABLE, DIRECT_CHANNEL } from '../temporal/server-address.js';
import { keepSecret } from '../platform/secrets.js';
import type { Config } from './config.js';
import { readTlsFiles } from './tls-files.js';

/** A deployment's Temporal server, for workers and clients alike. */
export interface ConnectionSettings {
  options: ClientConnectConfig['connectionOptions'] & {
    address: string;
    /** For clients; a worker's connection has none. */
    channelArgs: typeof DIRECT_CHANNEL;
  };
  namespace: string;
  /** The setting that counts for its address, for messages. */
  address_from: string;
  /** Differs as soon as certificates, keys or metadata do. */
  trust: string;
  /** Reads the variables' files anew. */
  again: () => ConnectionSettings;
}

/** Address and namespace: temporal.yaml's, else TEMPORAL_* variables and temporal.toml, else the local default. */
export function connectionSettings({ temporal }: Pick<Config, 'temporal'>): ConnectionSettings {
  const { profile, address, namespace } = temporal;
  const found = readProfile(profile);
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

/** Metadata with names such as `authorization`; other metadata is not secret. */
const SECRET_NAME = /auth|key|token|secret|password|cookie/i;

function keepSecretsOf({ connectionOptions }: ClientConnectConfig): void {
  const { apiKey, metadata = {} } = connectionOptions;
  if (typeof apiKey === 'string') keepSecret(apiKey);
  for (const [name, value] of Object.entries(metadata)) {
    if (SECRET_NAME.test(name) && typeof value === 'string') keepSecret(value);
  }
}

function readProfile(profile: string | null): ClientConnectConfig {
  const found = loadProfile(profile);
  return toClientOptions({ ...found, ...(found.tls && { tls: readTlsFiles(found.tls) }) });
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
