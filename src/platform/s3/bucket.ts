import { createHash, randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import type * as Sdk from '@aws-sdk/client-s3';
import { describeError } from '../errors.js';
import { keepSecret } from '../secrets.js';

/** The objects below a prefix of a bucket. An object is there as a whole, or not at all. */
export interface Bucket {
  /** `s3://bucket/prefix`. */
  readonly name: string;
  /** null: there is none. */
  get(key: string): Promise<Buffer | null>;
  /** The same, in pieces, all of one state of it: one that is replaced meanwhile is an error. */
  read(key: string): AsyncGenerator<Buffer>;
  /** An object that only its writer puts, under a name of its own. */
  put(key: string, body: Buffer | string): Promise<void>;
  /** true: it has this content afterwards, also if an answer was lost; false: somebody else has put it. */
  putOnce(key: string, body: Buffer | string): Promise<boolean>;
  remove(key: string): Promise<void>;
  /** All keys that begin so. */
  list(prefix: string): Promise<string[]>;
  /** All objects whose keys begin so. */
  look(prefix: string): Promise<SeenObject[]>;
  /** The same bucket below a folder. */
  below(folder: string): Bucket;
  close: () => void;
}

export interface SeenObject {
  key: string;
  bytes: number;
  /** A tag of its content, however it was uploaded. */
  etag: string;
  modified: Date;
}

export interface BucketSettings {
  bucket: string;
  /** Without slashes at its ends. */
  prefix: string;
  /** Absent: from the environment. */
  region?: string | undefined;
  /** The endpoint of a store that is not Amazon's. Absent: from the environment, else Amazon's. */
  endpoint?: string | undefined;
}

/** `s3://bucket/prefix`. */
export const addressOf = ({ bucket, prefix }: Pick<BucketSettings, 'bucket' | 'prefix'>): string =>
  `s3://${bucket}${prefix === '' ? '' : `/${prefix}`}`;

/** Bucket and key or prefix of such an address; null: it is none. */
export function placeOf(address: string): Pick<BucketSettings, 'bucket' | 'prefix'> | null {
  const [, bucket, prefix = ''] = /^s3:\/\/([a-z0-9][a-z0-9.-]+)(?:\/(.*))?$/s.exec(address) ?? [];
  return bucket === undefined ? null : { bucket, prefix: prefix.replace(/\/+$/, '') };
}

const PIECE_BYTES = 8 * 2 ** 20;
const SILENT_MS = 60_000;
const CONNECTS_WITHIN_MS = 5000;
/** Tries of a request (connections that break, 500, 503, `SlowDown`), or of a download that breaks off. */
const TRIES = 6;
/** Tries of a conditional write that met another one (409), or was answered without saying that it is stored. */
const CONFLICTS = 8;
const PAUSE_MS = 100;

export function createBucket(
  { bucket, prefix, ...place }: BucketSettings,
  { silent_ms = SILENT_MS }: { silent_ms?: number } = {},
): Bucket {
  let client: Sdk.S3Client | null = null;
  const send = async <T>(request: (s3: S3Means) => Promise<T>): Promise<T> => {
    // Only those who use it wait for its modules.
    const sdk = await import('@aws-sdk/client-s3');
    client ??= new sdk.S3Client(settingsOf(place, silent_ms));
    const options = { abortSignal: AbortSignal.timeout(TRIES * silent_ms) };
    return await request({ sdk, client, options });
  };
  /** A token that ran out early is asked for anew, once. */
  const ask: Ask = async (request) => {
    try {
      return await send(request).catch(async (error: unknown) => {
        if (!EXPIRED.includes(nameOf(error))) throw error;
        client = null;
        return await send(request);
      });
    } catch (error) {
      throw named(error, bucket);
    }
  };
  return objectsBelow(prefix, { bucket, ask, close: () => client?.destroy() });
}

interface S3Means {
  sdk: typeof Sdk;
  client: Sdk.S3Client;
  options: { abortSignal: AbortSignal };
}

type Ask = <T>(request: (s3: S3Means) => Promise<T>) => Promise<T>;

interface Asking {
  bucket: string;
  ask: Ask;
  close: () => void;
}

function objectsBelow(prefix: string, asking: Asking): Bucket {
  const { bucket: Bucket, ask } = asking;
  const keyOf = (key: string): string => (prefix === '' ? key : `${prefix}/${key}`);
  const at = (key: string) => ({ Bucket, Key: keyOf(key) });
  /** true: the answer proves that it is stored; null: it does not. */
  const put = (key: string, { body, ...more }: PutBody): Promise<true | null> =>
    ask(async ({ sdk, client, options }) => {
      const command = new sdk.PutObjectCommand({ ...at(key), Body: body, ...more });
      return (await client.send(command, options)).ETag === undefined ? null : true;
    });
  const look: Bucket['look'] = async (start) =>
    (await objectsAt({ Bucket, Prefix: keyOf(start) }, ask)).map(
      ({ Key = '', Size: bytes = 0, ETag: etag = '', LastModified: modified = new Date(0) }) => ({
        key: Key.slice(keyOf('').length),
        bytes,
        etag,
        modified,
      }),
    );
  return {
    name: addressOf({ bucket: Bucket, prefix }),
    get: (key) => ask((asked) => downloaded(at(key), asked)),
    read: (key) => piecesOf(at(key), ask),
    put: async (key, body) => {
      await patiently(key, () => put(key, { body }));
    },
    putOnce: async (key, body) => {
      const own = { writer: randomUUID(), sha256: sha256Of(body) };
      return await patiently(key, async () => {
        try {
          return await put(key, { body, Metadata: own, IfNoneMatch: '*' });
        } catch (error) {
          if (statusOf(error) === 409) return null;
          if (statusOf(error) !== 412) throw error;
        }
        const found = await ask(({ sdk, client, options }) =>
          client.send(new sdk.HeadObjectCommand(at(key)), options).catch(orNull),
        );
        // It was deleted meanwhile.
        if (found === null) return null;
        return found.Metadata?.['writer'] === own.writer && found.Metadata['sha256'] === own.sha256;
      });
    },
    remove: (key) =>
      ask(async ({ sdk, client, options }) => {
        await client.send(new sdk.DeleteObjectCommand(at(key)), options);
      }),
    list: async (start) => (await look(start)).map(({ key }) => key),
    look,
    below: (folder) => objectsBelow(keyOf(folder), asking),
    close: asking.close,
  };
}

async function objectsAt(at: { Bucket: string; Prefix: string }, ask: Ask): Promise<Sdk._Object[]> {
  const seen: Sdk._Object[] = [];
  for (let token: string | undefined; ;) {
    const page = await ask(({ sdk, client, options }) =>
      client.send(new sdk.ListObjectsV2Command({ ...at, ContinuationToken: token }), options),
    );
    seen.push(...(page.Contents ?? []));
    if (page.IsTruncated !== true) return seen;
    token = page.NextContinuationToken;
  }
}

async function* piecesOf(at: { Bucket: string; Key: string }, ask: Ask): AsyncGenerator<Buffer> {
  const found = await ask(({ sdk, client, options }) =>
    client.send(new sdk.HeadObjectCommand(at), options).catch(orNull),
  );
  if (found === null) throw missing(at);
  const { ContentLength: bytes = 0, ETag } = found;
  for (let from = 0; from < bytes; from += PIECE_BYTES) {
    const Range = `bytes=${from}-${Math.min(from + PIECE_BYTES, bytes) - 1}`;
    const piece = await ask((asked) => downloaded({ ...at, Range, IfMatch: ETag }, asked));
    if (piece === null) throw missing(at);
    yield piece;
  }
}

/** null: there is none. The client repeats requests, not downloads that break off behind their first bytes. */
async function downloaded(
  input: Sdk.GetObjectCommandInput,
  { sdk, client, options }: S3Means,
): Promise<Buffer | null> {
  for (let tries = 1; ; tries++) {
    const found = await client.send(new sdk.GetObjectCommand(input), options).catch(orNull);
    try {
      return found && Buffer.from((await found.Body?.transformToByteArray()) ?? []);
    } catch (error) {
      if (tries === TRIES) throw error;
    }
    await sleep(PAUSE_MS * tries);
  }
}

const missing = ({ Bucket, Key }: { Bucket: string; Key: string }): Error =>
  Object.assign(new Error(`bucket ${Bucket}: there is no object ${Key}`), {
    $metadata: { httpStatusCode: 404 },
  });

interface PutBody {
  body: Buffer | string;
  Metadata?: Record<string, string>;
  IfNoneMatch?: '*';
}

export const sha256Of = (body: Buffer | string): string =>
  createHash('sha256').update(body).digest('hex');

function settingsOf(
  { region, endpoint }: Pick<BucketSettings, 'region' | 'endpoint'>,
  silent_ms: number,
): Sdk.S3ClientConfig {
  const { env } = process;
  for (const name of ['AWS_SECRET_ACCESS_KEY', 'AWS_SESSION_TOKEN']) keepSecret(env[name] ?? '');
  // It warns of releases that this one does not use.
  env['AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED'] ??= 'true';
  const foreign = endpoint ?? env['AWS_ENDPOINT_URL_S3'] ?? env['AWS_ENDPOINT_URL'];
  return {
    ...(region !== undefined && { region }),
    ...(endpoint !== undefined && { endpoint }),
    credentials: clusterCredentials(env),
    // Others than Amazon's have no names of hosts for buckets.
    forcePathStyle: foreign !== undefined,
    maxAttempts: TRIES,
    // Its `requestTimeout` only warns, and ends with the answer's first bytes.
    requestHandler: { connectionTimeout: CONNECTS_WITHIN_MS, socketTimeout: silent_ms },
    // The signature has a body's hash; others do not know the newer checksums.
    requestChecksumCalculation: 'WHEN_REQUIRED',
    responseChecksumValidation: 'WHEN_REQUIRED',
  };
}

/** Until the outcome is known; null: it is not. */
async function patiently<T>(key: string, attempt: () => Promise<T | null>): Promise<T> {
  for (let tries = 1; tries <= CONFLICTS; tries++) {
    const outcome = await attempt();
    if (outcome !== null) return outcome;
    await sleep(PAUSE_MS * tries);
  }
  throw new Error(`${key}: no answer said that it is stored, ${CONFLICTS} times`);
}

const EXPIRED = ['ExpiredToken', 'ExpiredTokenException', 'TokenRefreshRequired', 'InvalidToken'];

const nameOf = (error: unknown): string => (error instanceof Error ? error.name : '');

const statusOf = (error: unknown): number | undefined =>
  (error as { $metadata?: { httpStatusCode?: number } } | null)?.$metadata?.httpStatusCode;

/** Whether asking again would give the same: no such object, no right to it, no bucket. */
export function isRefusal(error: unknown): boolean {
  const status = statusOf(error) ?? 500;
  return status >= 400 && status < 500 && ![408, 412, 429].includes(status);
}

/** A bucket that is missing is no missing object. */
function orNull(error: unknown): null {
  if (statusOf(error) === 404 && nameOf(error) !== 'NoSuchBucket') return null;
  throw error;
}

/** Some errors have only a name. */
function named(error: unknown, bucket: string): unknown {
  if (!(error instanceof Error) || error.message.startsWith(`bucket ${bucket}`)) return error;
  const { message } = error;
  const what = [nameOf(error), ...(message === '' || message === nameOf(error) ? [] : [message])];
  error.message = `bucket ${bucket}: ${what.join(': ')}`;
  return error;
}

/**
 * Credentials as clusters have them. The first place that is there decides: one that fails is an error with its name,
 * and no other identity takes its place. A shell's profiles are none of these.
 */

/** Gives credentials, and says when they end. */
type Provider = Extract<Sdk.S3ClientConfig['credentials'], (...args: never[]) => unknown>;

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
function clusterCredentials(env: NodeJS.ProcessEnv): Provider {
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
