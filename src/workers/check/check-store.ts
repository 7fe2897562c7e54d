import { access, constants } from 'node:fs/promises';
import { createPolicyRecords } from '../../activities/policy/policy-records.js';
import { whyNothingServes } from '../../model/workflow-safe/policy.js';
import { commandLine } from '../../platform/command.js';
import { describeError } from '../../platform/errors.js';
import { checkWritable } from '../../platform/files.js';
import { MIGRATE } from '../../trajectories/postgres/faults.js';
import type { TrajectoryStore } from '../../trajectories/trajectory-store.js';
import type { Config } from '../config.js';
import { memoryOf } from '../config.js';
import { openStore, outputsRoot } from '../open-store.js';
import type { Finding } from './finding.js';

const STORE_ANSWERS_WITHIN_MS = 10_000;

/** Checks the store, the folder of samples, and whether what the store has of policies lets rollouts go on. */
export async function checkStore(
  config: Config,
  { env, file }: { env: NodeJS.ProcessEnv; file: string | undefined },
): Promise<Finding[]> {
  const { store: settings, inputs_dir } = config;
  const root = outputsRoot(config);
  const part = `store ${settings.kind === 'file' ? root : `${settings.kind}, outputs ${root}`}`;
  return [
    ...(await judge(part, {
      ask: async () => {
        const policies = await withStore(config, { env, use: (store) => checkPolicies(config, store) }); // prettier-ignore
        await checkWritable(root);
        return policies;
      },
      what: 'can be written',
      remedy: (what) =>
        what.includes(MIGRATE)
          ? commandLine('store migrate', file)
          : 'store in temporal.yaml names a place that workers can write',
    })),
    ...(await judge(`inputs_dir ${inputs_dir}`, {
      ask: async () => {
        await access(inputs_dir, constants.R_OK | constants.X_OK);
        return [];
      },
      what: 'can be read',
      remedy: () => 'inputs_dir in temporal.yaml is the folder that sample files are below',
    })),
  ];
}

async function withStore<T>(
  config: Config,
  { env, use }: { env: NodeJS.ProcessEnv; use: (store: TrajectoryStore) => Promise<T> },
): Promise<T> {
  const { cached_fold_bytes, request_bytes } = memoryOf(config);
  const bounds = { max_cached_bytes: cached_fold_bytes, max_request_bytes: request_bytes };
  const { store, ready, close } = openStore(config, { env, ...bounds });
  try {
    // The store reports while it waits; the last report is the reason.
    const said: string[] = [];
    const say = (line: string): void => {
      said.push(line);
    };
    const signal = AbortSignal.timeout(STORE_ANSWERS_WITHIN_MS);
    await ready({ say, signal });
    if (signal.aborted) throw new Error(said.at(-1) ?? 'no answer');
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

/** The part's own finding, then what asking it found besides. */
async function judge(
  part: string,
  {
    ask,
    what,
    remedy,
  }: { ask: () => Promise<Finding[]>; what: string; remedy: (what: string) => string },
): Promise<Finding[]> {
  try {
    const more = await ask();
    return [{ part, state: 'ok', what }, ...more];
  } catch (error) {
    const what = describeError(error);
    return [{ part, state: 'broken', what, remedy: remedy(what) }];
  }
}
