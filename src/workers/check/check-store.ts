import { access, constants } from 'node:fs/promises';
import { createPolicyRecords } from '../../activities/policy/policy-records.js';
import { viewOf } from '../../model/policy/view.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { commandLine } from '../../platform/command.js';
import { describeError } from '../../platform/errors.js';
import type { Readers, Tried } from '../../platform/files.js';
import { tryToWrite, whyNoSpace } from '../../platform/files.js';
import type { BucketSettings } from '../../platform/s3/bucket.js';
import { createBucket, placeOf } from '../../platform/s3/bucket.js';
import { tryBucket } from '../../trajectories/outputs-place.js';
import { MIGRATE, NAME_HOST, REACH } from '../../trajectories/postgres/faults.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Config } from '../config.js';
import type { OwnStore } from '../one-store.js';
import { writesResults } from '../one-store.js';
import {
  outputSettings,
  outputsReaders,
  outputsRoot,
  placeOfUrl,
  withStore,
} from '../open-store.js';
import type { Finding, Found } from './finding.js';
import { broken, findingsOf, limited, ok } from './finding.js';

const UNREACHED = [REACH, NAME_HOST];

const WITHIN_MS = 10_000;

/** Checks the store, the folder of samples, and whether what the store has of policies lets rollouts go on. */
export async function checkStore(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const { inputs_dir } = config;
  return [
    ...(await checkDatabase(config, { env, file })),
    ...(isBucket(config) ? await checkBucket(config, env) : await checkFolder(config)),
    ...(await judge(`inputs_dir ${inputs_dir}`, {
      ask: async () => {
        const place = placeOf(inputs_dir);
        await (place === null
          ? access(inputs_dir, constants.R_OK | constants.X_OK)
          : tryToRead(place));
        return [ok('can be read')];
      },
      remedy: () =>
        'inputs_dir in temporal.yaml is the folder, or the address of the bucket, that sample files are below',
    })),
  ];
}

/** The ids of the store that temporal.yaml names; null: it does not answer, which is a finding of its own. */
export const askForIds = (config: Config, env: NodeJS.ProcessEnv): Promise<OwnStore | null> =>
  withStore(config, {
    env,
    within_ms: WITHIN_MS,
    use: async ({ ids, store }) => ({
      ...(await ids({ make: false, results: writesResults(config) })),
      name: store.name,
    }),
  }).catch(() => null);

async function checkDatabase(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const { store } = config;
  const isFile = store.kind === 'file';
  return await judge(isFile ? `store ${store.root}` : 'store postgres', {
    ask: async () => {
      const policies = await withStore(config, {
        env,
        within_ms: WITHIN_MS,
        use: async ({ tryOut, store }) => {
          await tryOut();
          return await checkPolicies(config, store);
        },
      });
      return isFile ? policies : [ok('can be written and read'), ...policies];
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

const LITTLE_BYTES = 2 ** 30;

const FEW_INODES = 10_000;

async function checkFolder(config: Config): Promise<Finding[]> {
  const root = outputsRoot(config);
  const setting = config.store.kind === 'file' ? 'store.root' : 'store.outputs.root';
  const part = config.store.kind === 'file' ? `store ${root}` : `store outputs ${root}`;
  return await judge(part, {
    ask: async () => {
      const readers = outputsReaders(config);
      const tried = await tryToWrite(root, { readers });
      const problems = folderProblems(tried, { readers, setting });
      if (problems.length > 0) return problems;
      const { missing } = tried;
      return [
        ok(missing === null ? 'can be written' : `can be written; a worker makes ${missing}`),
      ];
    },
    remedy: (what) =>
      what.includes('ENOSPC') || what.includes('EDQUOT')
        ? `make room there, or name another folder in ${setting}`
        : `name a folder in ${setting} that the user of workers can make and write`,
  });
}

async function tryToRead(place: BucketSettings): Promise<void> {
  const bucket = createBucket(place);
  try {
    await bucket.get('.samples/none');
  } finally {
    bucket.close();
  }
}

const isBucket = ({ store }: Config): boolean =>
  store.kind === 'postgres' && store.outputs.kind === 's3';

const checkBucket = (config: Config, env: NodeJS.ProcessEnv): Promise<Finding[]> =>
  judge(`store outputs ${outputsRoot(config)}`, {
    ask: async () => {
      const { store } = config;
      if (store.kind === 'postgres') await tryBucket(outputSettings(store.outputs, env));
      return [ok('can be written, and keeps what was put once')];
    },
    remedy: () =>
      'correct store.outputs (docs/configuration.md), or give the worker credentials that may list, get, put and delete there (docs/hosts.md)',
  });

function folderProblems(
  { free, inodes, closed }: Tried,
  { readers, setting }: { readers: Readers; setting: string },
): Found[] {
  const found: Found[] = [];
  const add = (what: string, remedy: string): void => {
    found.push(limited(`can be written, but ${what}`, remedy));
  };
  if (free < LITTLE_BYTES)
    add(
      `${Math.floor(free / 2 ** 20)} MiB are free`,
      `make room there (1 GiB or more), or name another folder in ${setting}`,
    );
  if (inodes < FEW_INODES)
    add(
      `${inodes} inodes are free: a rollout takes one`,
      `remove files there, or name a folder of another file system in ${setting}`,
    );
  if (closed === null) return found;
  const [umask, whom] = readers === 'everyone' ? ['022', 'everyone'] : ['027', 'the group'];
  add(
    `${closed} keeps ${whom} from reading (readers: ${readers})`,
    closed === 'the umask'
      ? `start workers with umask ${umask} (this shell has another), or set readers: owner`
      : `chmod o+rx ${closed}, or name another folder in ${setting}`,
  );
  return found;
}

/** A service for which nothing was published has no finding. */
async function checkPolicies(
  { generation }: Pick<Config, 'generation'>,
  { facts }: Pick<TrajectoryStore, 'facts'>,
): Promise<Finding[]> {
  const found = Object.keys(generation).map(async (service): Promise<Finding[]> => {
    const record = await createPolicyRecords(service, { facts }).latest();
    if (record === null) return [];
    const part = `policy ${service}`;
    const what = whyNothingServes(viewOf(record));
    if (what === null) {
      const weights = record.version === null ? 'what engines loaded' : `version ${record.version}`;
      return findingsOf(part, [ok(`${weights} serves`)]);
    }
    const remedy = 'rollouts wait until a replica serves (docs/weights.md)';
    return findingsOf(part, [broken(what, remedy)]);
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
    ask: () => Promise<(Found & { part?: string })[]>;
    remedy: (what: string) => string;
  },
): Promise<Finding[]> {
  try {
    return (await ask()).map((finding) => ({ part, ...finding }));
  } catch (error) {
    const why = await whyNoSpace(error);
    const what = `${describeError(error)}${why === null ? '' : `: ${why}`}`;
    return findingsOf(part, [broken(what, remedy(what))]);
  }
}
