import { toMs } from '../model/workflow-safe/durations.js';
import type { Readers } from '../platform/files.js';
import { describeError } from '../platform/errors.js';
import { createDisk } from '../platform/files.js';
import { readWholeNow } from '../platform/regular-file.js';
import { addressOf } from '../platform/s3/bucket.js';
import { FEWEST_CHARACTERS, keepSecret } from '../platform/secrets.js';
import { createFileStore } from '../trajectories/files/file-store.js';
import { SCHEMA_VERSION } from '../trajectories/postgres/migrations.js';
import type { PostgresSettings } from '../trajectories/postgres/open.js';
import { migratePostgres, openPostgresStore } from '../trajectories/postgres/open.js';
import { createFileFacts } from '../trajectories/files/facts.js';
import type { OutputSettings } from '../trajectories/outputs-place.js';
import { findStoreId, keySecretOf } from '../trajectories/store-id.js';
import type { OpenStore } from '../trajectories/trajectory-store.js';
import type { Config, PostgresStoreSettings } from './config.js';
import { DEFAULT_ROOT } from './config.js';

export function openStore(
  { store }: Pick<Config, 'store'>,
  {
    env,
    ...bounds
  }: { env: NodeJS.ProcessEnv; max_cached_bytes: number; max_request_bytes: number },
): OpenStore {
  if (store.kind === 'postgres') return openPostgresStore({ ...settingsOf(store, env), ...bounds });
  const { root, readers, outputs } = store;
  const files = createFileStore({ root, readers, formats: outputs.formats, ...bounds });
  return {
    store: files,
    ids: async ({ make }) => ({
      store: make ? await files.storeId() : await findStoreId(files.facts),
      results: null,
    }),
    keySecret: () => keySecretOf(createFileFacts(root, createDisk('owner'))),
    tryOut: () => Promise.resolve(),
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
  };
}

interface Use<T> {
  env: NodeJS.ProcessEnv;
  /** The longest wait for the store; absent: until it gives up. */
  within_ms?: number;
  say?: (line: string) => void;
  use: (opened: OpenStore) => Promise<T>;
  /** Called with the store's name if it does not answer; absent: rejects with the reason. */
  without?: (name: string) => Promise<T>;
}

export async function withStore<T>(
  config: Pick<Config, 'store'>,
  { env, within_ms, say, use, without }: Use<T>,
): Promise<T> {
  const opened = openStore(config, { env, max_cached_bytes: 0, max_request_bytes: 0 });
  // A store that is waited for says why again and again.
  let why = 'no answer';
  const signal = within_ms === undefined ? undefined : AbortSignal.timeout(within_ms);
  const heard = (line: string): void => {
    why = line;
    say?.(line);
  };
  try {
    const away = await opened
      .ready({ say: heard, ...(signal && { signal }) })
      .then(() => (signal?.aborted === true ? why : null), describeError);
    if (away === null) return await use(opened);
    if (without === undefined) throw new Error(away);
    return await without(opened.store.name);
  } finally {
    await opened.close();
  }
}

/** Brings it to this release's version; returns a sentence that says what it did. */
export async function migrateStore(
  { store }: Pick<Config, 'store'>,
  env: NodeJS.ProcessEnv,
): Promise<string> {
  if (store.kind === 'file') return 'a store of files needs no migration';
  const { from, to } = await migratePostgres(settingsOf(store, env));
  if (to > SCHEMA_VERSION)
    throw new Error(
      `schema ${store.schema} is at version ${to}, this release knows ${SCHEMA_VERSION}: use the release that migrated it, or a later one`,
    );
  if (from === to) return `schema ${store.schema} is at version ${to}: nothing to do`;
  return `schema ${store.schema} is at version ${to}, it was at ${from}`;
}

/** The folder of the results and, for files, of the journals; or the address of a bucket. */
export function outputsRoot({ store }: Pick<Config, 'store'>): string {
  if (store.kind === 'file') return store.root;
  const { kind, root, bucket, prefix } = store.outputs;
  return kind === 's3' ? addressOf({ bucket: bucket ?? '', prefix }) : (root ?? DEFAULT_ROOT);
}

export const outputsReaders = ({ store }: Pick<Config, 'store'>): Readers =>
  store.kind === 'file' ? store.readers : store.outputs.readers;

/** Where the URL of a store in PostgreSQL is, as in temporal.yaml. */
export const placeOfUrl = ({ url_env, url_file }: PostgresStoreSettings): string =>
  url_env === null ? `store.url_file: ${url_file ?? ''}` : `store.url_env: ${url_env}`;

const settingsOf = (settings: PostgresStoreSettings, env: NodeJS.ProcessEnv): PostgresSettings => ({
  url: urlOf(settings, env),
  // Passwords are rotated in files. A variable of this process stays.
  ...(settings.url_file !== null && { latest_url: () => urlOf(settings, env) }),
  schema: settings.schema,
  max_connections: settings.max_connections,
  outputs: outputSettings(settings.outputs, env),
  patience_ms: toMs(settings.patience),
});

export function outputSettings(
  { kind, bucket, region, endpoint_env, ...outputs }: PostgresStoreSettings['outputs'],
  env: NodeJS.ProcessEnv,
): OutputSettings {
  if (kind === 'file') return { ...outputs, kind, root: outputs.root ?? DEFAULT_ROOT };
  const { prefix, formats } = outputs;
  return {
    ...{ kind, bucket: bucket ?? '', prefix, formats },
    ...(region !== null && { region }),
    ...(endpoint_env !== null && { endpoint: endpointIn(endpoint_env, env) }),
  };
}

function endpointIn(variable: string, env: NodeJS.ProcessEnv): string {
  const text = (env[variable] ?? '').trim();
  if (URL.canParse(text) && /^https?:$/.test(new URL(text).protocol)) return text;
  const got = text === '' ? 'nothing' : 'another text';
  throw new Error(
    `store.outputs.endpoint_env: ${variable}: expected a URL such as https://minio:9000, got ${got}`,
  );
}

/** Errors name where the URL is, never its content. */
function urlOf(settings: PostgresStoreSettings, env: NodeJS.ProcessEnv): string {
  const { url_env, url_file } = settings;
  const expected = `${placeOfUrl(settings)}: expected a URL such as postgres://user:password@host:5432/database?sslmode=verify-full`;
  const text = (url_env === null ? readUrl(url_file ?? '', expected) : (env[url_env] ?? '')).trim();
  if (text === '') throw new Error(`${expected}, got nothing`);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !['postgres:', 'postgresql:'].includes(url.protocol))
    throw new Error(`${expected}, got another text`);
  if (url.password !== '' && url.password.length < FEWEST_CHARACTERS) {
    throw new Error(
      `${expected}, got a password of ${url.password.length} characters: one of fewer than ${FEWEST_CHARACTERS} cannot be kept out of journals and logs`,
    );
  }
  for (const secret of [text, url.password, ...url.searchParams.getAll('password')])
    keepSecret(secret);
  keepSecret(decoded(url.password, expected));
  if (env['PGPASSWORD'] !== undefined) keepSecret(env['PGPASSWORD']);
  return text;
}

function decoded(password: string, expected: string): string {
  try {
    return decodeURIComponent(password);
  } catch {
    throw new Error(`${expected}, got a password with a % that is no %25`);
  }
}

function readUrl(file: string, expected: string): string {
  try {
    return readWholeNow(file).toString();
  } catch (cause) {
    throw new Error(`${expected}, cannot read it`, { cause });
  }
}
