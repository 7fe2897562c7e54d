import { orUnreadable, resultOf } from '../client/list/find-result.js';
import { listTable, isOpen, merged, withProgress, withResult } from '../client/list/list-table.js';
import type { Listed } from '../client/list/list-table.js';
import { openRuns } from '../client/list/runs.js';
import type { ServerAddress } from '../client/server.js';
import { whyNot } from '../client/server.js';
import { Fault } from '../model/faults.js';
import { writeJson } from '../platform/json/kept.js';
import { plain, plainJson } from '../platform/plain.js';
import type { TrajectoryStore } from '../trajectories/trajectory-store.js';
import { FLAG, TEXT, integerOf, optionsIn } from '../platform/arguments.js';
import { styleOf, write } from './terminal.js';
import type { GivenStore } from './store.js';
import { withGivenStore } from './store.js';
import { temporalSettings } from './temporal-settings.js';

type ListStore = Pick<TrajectoryStore, 'listBatches' | 'findRequest' | 'facts' | 'outputs'>;

/** Batches and streams: those of the store, and those that the Temporal server has. */
export async function listCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    config: TEXT,
    limit: { ...TEXT, default: '20' },
    running: FLAG,
    json: FLAG,
  });
  const limit = integerOf('--limit', { text: values.limit, least: 1 });
  const { server } = await temporalSettings(values.config);
  const runs = openRuns(server);
  try {
    const found = await unlessSilent(server, runs.list());
    const { all, shown } = await withGivenStore(values.config, async (given) => {
      const store = given?.store ?? null;
      if (store === null) say(`${noStore(given)}, so this is what the Temporal server has`);
      const stored = store === null ? [] : await store.listBatches();
      const all = merged(stored, found ?? []).filter((one) => !values.running || isOpen(one));
      const first = all.slice(0, limit);
      const open = first.filter((one) => isOpen(one) && one.kind === 'batch');
      const progress = await runs.progressOf(open.map(({ id }) => id));
      const shown: Listed[] = [];
      for (const listed of first) shown.push(await withNumbers(listed, { store, progress }));
      return { all, shown };
    });
    if (values.json) await write(shown.map((listed) => plainJson(writeJson(jsonOf(listed)))));
    else await write(listTable(shown, { others: all.length - shown.length, style: styleOf() }));
    // An incomplete list is a failure for scripts.
    return found === null ? 1 : 0;
  } finally {
    await runs.close();
  }
}

const say = (text: string): void => {
  console.error(plain(text));
};

const noStore = (given: GivenStore | null): string =>
  given === null
    ? 'no temporal.yaml here names a store (--config FILE does)'
    : `${given.name} does not answer`;

/** null: the server is silent; the store's batches are shown without it. */
async function unlessSilent<T>(server: ServerAddress, asked: Promise<T>): Promise<T | null> {
  try {
    return await asked;
  } catch (error) {
    const { address, what, remedy, isFinal } = await whyNot(server, error);
    say(
      `the Temporal server at ${address} does not answer, so this is what the store has: ${what}${isFinal ? `; ${remedy}` : ''}`,
    );
    return null;
  }
}

interface Sources {
  store: ListStore | null;
  progress: ReadonlyMap<string, Parameters<typeof withProgress>[1]>;
}

async function withNumbers(listed: Listed, { store, progress }: Sources): Promise<Listed> {
  const now = progress.get(listed.id);
  if (now !== undefined) return withProgress(listed, now);
  if (store === null) return listed;
  const request = await orUnreadable(store.findRequest(listed.id));
  if (request instanceof Fault) say(request.message);
  if (request === null || request instanceof Fault) return listed;
  if (request.stream !== undefined) {
    const last = await store.facts.last([listed.id, 'steps'], -1);
    return { ...listed, kind: 'stream', steps: last === null ? 0 : last.n + 1 };
  }
  const result = await resultOf(store.outputs(listed.id));
  const batch: Listed = { ...listed, kind: 'batch' };
  return result === null ? batch : withResult(batch, result);
}

function jsonOf({ started_ms, ...listed }: Listed): Record<string, unknown> {
  const started = started_ms === null ? null : new Date(started_ms).toISOString();
  return { ...listed, started };
}
