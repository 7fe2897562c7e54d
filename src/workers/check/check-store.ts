import { access, constants } from 'node:fs/promises';
import { createPolicyRecords } from '../../activities/policy/policy-records.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { commandLine } from '../../platform/command.js';
import { describeError } from '../../platform/errors.js';
import { tryToWrite } from '../../platform/files.js';
import { MIGRATE, NAME_HOST, REACH } from '../../trajectories/postgres/faults.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Config } from '../config.js';
import { memoryOf } from '../config.js';
import { openStore, outputsReaders, outputsRoot, placeOfUrl } from '../open-store.js';
import type { Finding } from './finding.js';

/** What the database's errors say if nobody answers. */
const UNREACHED = [REACH, NAME_HOST];

const STORE_ANSWERS_WITHIN_MS = 10_000;

/** Checks the store, the folder of samples, and whether what the store has of policies lets rollouts go on. */
export async function checkStore(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const { inputs_dir } = config;
  return [
    ...(await checkDatabase(config, { env, file })),
    ...(await checkFolder(config)),
    ...(await judge(`inputs_dir ${inputs_dir}`, {
      ask: async () => {
        await access(inputs_dir, constants.R_OK | constants.X_OK);
        return [{ state: 'ok', what: 'can be read' }];
      },
      remedy: () => 'inputs_dir in temporal.yaml is the folder that sample files are below',
    })),
  ];
}

/** The database, if there is one, and what the store has of policies. */
async function checkDatabase(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const { store } = config;
  const isFile = store.kind === 'file';
  return await judge(isFile ? `store ${store.root}` : 'store postgres', {
    ask: async () => {
      const policies = await withStore(config, { env, use: (opened) => checkPolicies(config, opened) }); // prettier-ignore
      return isFile ? policies : [{ state: 'ok', what: 'can be written and read' }, ...policies];
    },
    remedy: (what) => {
      if (what.includes(MIGRATE)) return commandLine('store migrate', file);
      if (isFile)
        return 'make it readable for the user of workers, or name another folder in store.root';
      const place = placeOfUrl(store);
      if (what.startsWith(place))
        return store.url_env === null
          ? 'write the URL into that file'
          : `set ${store.url_env} in the shell that starts workers, and in this one`;
      if (UNREACHED.some((text) => what.includes(text)))
        return `start the database, or correct the URL of ${place}; workers wait for it meanwhile`;
      return `the database answers: change there what it says, or the URL of ${place}`;
    },
  });
}

/** Less than this does not last for long. */
const LITTLE_BYTES = 2 ** 30;

/** The folder of results and, for files, of journals. */
async function checkFolder(config: Config): Promise<Finding[]> {
  const root = outputsRoot(config);
  const setting = config.store.kind === 'file' ? 'store.root' : 'store.outputs.root';
  const part = config.store.kind === 'file' ? `store ${root}` : `store outputs ${root}`;
  return await judge(part, {
    ask: async () => {
      const { free } = await tryToWrite(root, { readers: outputsReaders(config) });
      if (free >= LITTLE_BYTES) return [{ state: 'ok', what: 'can be written' }];
      const what = `can be written, but ${Math.floor(free / 2 ** 20)} MiB are free`;
      return [{ state: 'limited', what, remedy: `make room there (1 GiB or more), or name another folder in ${setting}` }]; // prettier-ignore
    },
    remedy: (what) =>
      what.includes('ENOSPC') || what.includes('EDQUOT')
        ? `make room there, or name another folder in ${setting}`
        : `name a folder in ${setting} that the user of workers can make and write`,
  });
}

async function withStore<T>(
  config: Config,
  { env, use }: { env: NodeJS.ProcessEnv; use: (store: TrajectoryStore) => Promise<T> },
): Promise<T> {
  const { cached_fold_bytes, request_bytes } = memoryOf(config);
  const bounds = { max_cached_bytes: cached_fold_bytes, max_request_bytes: request_bytes };
  const { store, ready, tryOut, close } = openStore(config, { env, ...bounds });
  try {
    // The store reports while it waits; the last report is the reason.
    const said: string[] = [];
    const say = (line: string): void => {
      said.push(line);
    };
    const signal = AbortSignal.timeout(STORE_ANSWERS_WITHIN_MS);
    await ready({ say, signal });
    if (signal.aborted) throw new Error(said.at(-1) ?? 'no answer');
    await tryOut();
    return await use(store);
  } finally {
    await close();
  }
}

/** A service for which nothing was published has no finding. */
async function checkPolicies(
  { generation }: Pick<Config, 'generation'>,
  { facts }: Pick<TrajectoryStore, 'facts'>,
): Promise<Finding[]> {
  const found = Object.keys(generation).map(async (service): Promise<Finding[]> => {
    const record = await createPolicyRecords({ facts, service }).latest();
    if (record === null) return [];
    const part = `policy ${service}`;
    const what = whyNothingServes(record);
    if (what === null) {
      const weights = record.version === null ? 'what engines loaded' : `version ${record.version}`;
      return [{ part, state: 'ok', what: `${weights} serves` }];
    }
    const remedy = 'rollouts wait until a replica serves (docs/weights.md)';
    return [{ part, state: 'broken', what, remedy }];
  });
  return (await Promise.all(found)).flat();
}

/** What asking a part found; each is of that part unless it names another. */
async function judge(
  part: string,
  {
    ask,
    remedy,
  }: {
    ask: () => Promise<(Omit<Finding, 'part'> & { part?: string })[]>;
    remedy: (what: string) => string;
  },
): Promise<Finding[]> {
  try {
    return (await ask()).map((finding) => ({ part, ...finding }));
  } catch (error) {
    const what = describeError(error);
    return [{ part, state: 'broken', what, remedy: remedy(what) }];
  }
}
