import type { S3ClientConfig } from '@aws-sdk/client-s3';
import { describeError } from '../errors.js';

/**
 * Credentials as clusters have them. The first place that is there decides: one that fails is an error with its name,
 * and no other identity takes its place. A shell's profiles are none of these.
 */

/** Gives credentials, and says when they end. */
type Provider = Extract<S3ClientConfig['credentials'], (...args: never[]) => unknown>;

interface Place {
  name: string;
  isThere: (env: NodeJS.ProcessEnv) => boolean;
  open: () => Promise<Provider>;
}

/** Only those who use one wait for its modules. */
const PLACES: readonly Place[] = [
  {
    name: 'AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY',
    isThere: (env) => has(env, 'AWS_ACCESS_KEY_ID') && has(env, 'AWS_SECRET_ACCESS_KEY'),
    open: async () => (await import('@aws-sdk/credential-provider-env')).fromEnv(),
  },
  {
    name: "the container's endpoint (AWS_CONTAINER_CREDENTIALS_FULL_URI or _RELATIVE_URI)",
    isThere: (env) =>
      has(env, 'AWS_CONTAINER_CREDENTIALS_FULL_URI') ||
      has(env, 'AWS_CONTAINER_CREDENTIALS_RELATIVE_URI'),
    open: async () => (await import('@aws-sdk/credential-provider-http')).fromHttp(),
  },
  {
    name: 'the web identity (AWS_WEB_IDENTITY_TOKEN_FILE and AWS_ROLE_ARN)',
    isThere: (env) => has(env, 'AWS_WEB_IDENTITY_TOKEN_FILE') && has(env, 'AWS_ROLE_ARN'),
    open: async () => (await import('@aws-sdk/credential-provider-web-identity')).fromTokenFile(),
  },
  {
    name: "the host's role (IMDSv2)",
    isThere: (env) => !has(env, 'AWS_EC2_METADATA_DISABLED'),
    open: async () => {
      const { fromInstanceMetadata } = await import('@smithy/credential-provider-imds');
      return fromInstanceMetadata({ ec2MetadataV1Disabled: true });
    },
  },
];

const has = (env: NodeJS.ProcessEnv, name: string): boolean =>
  !['', 'false', undefined].includes(env[name]);

/** The client that is given it asks again some minutes before they end. */
export function clusterCredentials(env: NodeJS.ProcessEnv): Provider {
  return async (asked) => {
    const place = PLACES.find(({ isThere }) => isThere(env));
    if (place === undefined) throw new Error(`no credentials: expected ${NAMES}, got none of them`);
    try {
      return await (
        await place.open()
      )(asked);
    } catch (error) {
      throw new Error(`no credentials from ${place.name}: ${describeError(error)}`, {
        cause: error,
      });
    }
  };
}

const NAMES = PLACES.map(({ name }) => name).join(', or ');
