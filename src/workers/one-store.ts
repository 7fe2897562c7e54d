import { setTimeout as sleep } from 'node:timers/promises';
import type { Logger } from 'pino';
import { describeError } from '../platform/errors.js';
import type { PollerServer } from '../temporal/pollers.js';
import type { StoreIds } from '../trajectories/trajectory-store.js';
import { livingWorkers, namedIn } from '../temporal/pollers.js';
import { hasEnded } from './deaths/has-ended.js';
import { outputsRoot } from './open-store.js';
import type { Config } from './config.js';
import { keepLooking } from './keep-looking.js';
import { queuesOf } from './queues.js';

/**
 * Workers of one deployment have one store. With two, an attempt does not find what the one before it wrote, and
 * rollouts start over or fail. So workers tell each other the ids of their stores, in their names on the server.
 */

export interface OtherStore {
  queue: string;
  /** Its last sign of life; it grows only if it is alive. */
  seen: number;
  what: string;
  remedy: string;
}

export interface OwnStore extends StoreIds {
  name: string;
}

const ONE_STORE =
  'all workers of a task queue need one store (store in temporal.yaml); another deployment needs another temporal.task_queue';
const ONE_FOLDER =
  'all workers with role workflow need one place of results: store.outputs in temporal.yaml';

export const writesResults = ({ worker }: Pick<Config, 'worker'>): boolean =>
  worker.roles.includes('workflow');

export async function findOtherStores(
  server: PollerServer,
  { config, namespace, own }: { config: Config; namespace: string; own: OwnStore },
): Promise<OtherStore[]> {
  const found = queuesOf(config).map(async (queue) => {
    const living = await livingWorkers(server, { namespace, ...queue });
    const there = await Promise.all(
      living.map(async (one) => one.reports || !(await hasEnded(one.identity))),
    );
    return living.flatMap(({ identity, seen }, at): OtherStore[] => {
      const { worker, ...ids } = namedIn(identity);
      if (there[at] !== true) return [];
      const said = differenceOf(ids, { own, results: outputsRoot(config) });
      if (said === null) return [];
      const what = `worker ${worker} of task queue ${queue.name} has ${said.what}`;
      return [{ queue: queue.name, seen, what, remedy: said.remedy }];
    });
  });
  return (await Promise.all(found)).flat();
}

function differenceOf(
  theirs: StoreIds,
  { own, results }: { own: OwnStore; results: string },
): Pick<OtherStore, 'what' | 'remedy'> | null {
  if (theirs.store !== null && theirs.store !== own.store) {
    const ours = own.store === null ? 'which no worker has used yet' : `id ${own.store}`;
    const what = `another store (id ${theirs.store}) than ${own.name} (${ours})`;
    return { what, remedy: ONE_STORE };
  }
  if (theirs.results === null || own.results === null || theirs.results === own.results)
    return null;
  const what = `another place of results (id ${theirs.results}) than ${results} (id ${own.results})`;
  return { what, remedy: ONE_FOLDER };
}

const AGAIN_MS = 2000;

/**
 * Waits, since a worker that has stopped stays known for a while. Throws at a new sign of life. `look` rejects if the
 * server does not say.
 */
export async function waitForOneStore(
  look: () => Promise<OtherStore[]>,
  {
    log,
    signal,
    again_ms = AGAIN_MS,
  }: { log: Pick<Logger, 'warn' | 'debug'>; signal: AbortSignal; again_ms?: number },
): Promise<void> {
  const first = new Map<string, number>();
  while (!signal.aborted) {
    const others = await look().catch((error: unknown) => {
      log.debug(`stores of other workers are not known: ${describeError(error)}`);
      return [];
    });
    if (others.length === 0) return;
    for (const { what, remedy, seen } of others) {
      const before = first.get(what);
      if (before !== undefined && seen > before) throw new Error(`${what}: ${remedy}`);
      if (before === undefined) log.warn(`waiting until it has stopped: ${what}: ${remedy}`);
      first.set(what, before ?? seen);
    }
    await sleep(again_ms, undefined, { signal }).catch(() => undefined);
  }
}

/** Two workers that start at once see each other later. */
const LOOK_MS = 30_000;

export function keepOneStore(look: () => Promise<OtherStore[]>, log: Logger): () => void {
  const say = async (): Promise<void> => {
    for (const { what, remedy } of await look()) log.error(`${what}: ${remedy}`);
  };
  return keepLooking(say, {
    every_ms: LOOK_MS,
    failed: (why) => {
      log.debug(`stores of other workers are not known: ${why}`);
    },
  });
}
