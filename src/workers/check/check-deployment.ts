import { access, constants } from 'node:fs/promises';
import { pino } from 'pino';
import { createAllowance } from '../../platform/waits/allowance.js';
import { checkWritable } from '../../platform/files.js';
import { FEWEST_CHARACTERS } from '../../platform/secrets.js';
import { describeError } from '../../platform/errors.js';
import type { Config } from '../config.js';
import { memoryOf } from '../config.js';
import { openStore, outputsRoot } from '../open-store.js';
import { createControls, createPool } from '../parts.js';
import { checkEngine } from './check-engines.js';
import { checkEnvironments } from './check-environments.js';
import { checkTemporal } from './check-temporal.js';
import type { Finding } from './finding.js';

const STORE_ANSWERS_WITHIN_MS = 10_000;

/** Asks every part that temporal.yaml names once, without changing any. Never rejects because of a part. */
export async function checkDeployment(config: Config, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const found = await Promise.all([
    checkTemporal(config),
    checkStore(config, env),
    checkEngines(config, env),
    checkEnvironments(config, env),
  ]);
  return found.flat();
}

async function checkStore(config: Config, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const { store, inputs_dir } = config;
  const root = outputsRoot(config);
  const part = `store ${store.kind === 'file' ? root : `${store.kind}, outputs ${root}`}`;
  return [
    await judge(part, {
      ask: async () => {
        await askStore(config, env);
        await checkWritable(root);
      },
      what: 'can be written',
      remedy: 'store in temporal.yaml names a place that workers can write',
    }),
    await judge(`inputs_dir ${inputs_dir}`, {
      ask: () => access(inputs_dir, constants.R_OK | constants.X_OK),
      what: 'can be read',
      remedy: 'inputs_dir in temporal.yaml is the folder that sample files are below',
    }),
  ];
}

async function askStore(config: Config, env: NodeJS.ProcessEnv): Promise<void> {
  const { cached_fold_bytes, request_bytes } = memoryOf(config);
  const bounds = { max_cached_bytes: cached_fold_bytes, max_request_bytes: request_bytes };
  const { ready, close } = openStore(config, { env, ...bounds });
  try {
    // The store reports while it waits; the last report is the reason.
    const said: string[] = [];
    const say = (line: string): void => {
      said.push(line);
    };
    const signal = AbortSignal.timeout(STORE_ANSWERS_WITHIN_MS);
    await ready({ say, signal });
    if (signal.aborted) throw new Error(said.at(-1) ?? 'no answer');
  } finally {
    await close();
  }
}

async function judge(
  part: string,
  { ask, what, remedy }: { ask: () => Promise<unknown>; what: string; remedy: string },
): Promise<Finding> {
  try {
    await ask();
    return { part, state: 'ok', what };
  } catch (error) {
    return { part, state: 'broken', what: describeError(error), remedy };
  }
}

/** Each replica by itself, because an unavailable one does not affect the others. */
async function checkEngines(config: Config, env: NodeJS.ProcessEnv): Promise<Finding[]> {
  const replies = createAllowance(memoryOf(config).reply_bytes);
  const log = pino({ level: 'silent' });
  const found = Object.entries(config.generation).map(async ([name, settings]) => {
    try {
      const controls = createControls(name, { settings, env, replies });
      const of_replicas = settings.base_urls.map(async (url, i) => {
        const own = { ...settings, base_urls: [url] };
        const pool = createPool({ name, settings: own, config }, { env, log, replies });
        const control = controls[i];
        if (control === undefined) return [];
        try {
          return await checkEngine({ name, url, settings, pool, control });
        } finally {
          await Promise.all([pool.close(), control.close()]);
        }
      });
      return (await Promise.all(of_replicas)).flat();
    } catch (error) {
      const remedy = keyRemedy(settings.api_key_env, env);
      return [{ part: `generation.${name}`, state: 'broken' as const, what: describeError(error), remedy }]; // prettier-ignore
    }
  });
  return (await Promise.all(found)).flat();
}

/** For a key that workers cannot read. */
function keyRemedy(variable: string | null, env: NodeJS.ProcessEnv): string {
  const { length } = env[variable ?? ''] ?? '';
  if (length === 0) return 'set the variable where workers run';
  if (length >= FEWEST_CHARACTERS) return 'correct the variable where workers run';
  return `the key has ${length} characters: give engine and workers one of at least ${FEWEST_CHARACTERS}`;
}
