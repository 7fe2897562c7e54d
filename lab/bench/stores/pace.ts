import type { ContenderProcess } from '../contender-process.js';
import { startProcess } from '../contender-process.js';
import { table } from '../report.js';
import type { Database, StorePlace } from './database.js';
import { TURNS } from './lines.js';
import type { WriteOrder, Written } from './writer.js';

/** How fast one process's journals go into each store, by the number of concurrent writers. */

export interface PaceOptions {
  lanes: readonly number[];
  for_ms: number;
}

const BEHIND_EACH = '10 turns, behind each';
/**
 * The content of a rollout, and where its commits are. One turn with one commit is what a store of finished
 * trajectories writes.
 */
const WAYS = {
  [BEHIND_EACH]: { turns: TURNS, commits: 'turns' },
  '10 turns, behind all': { turns: TURNS, commits: 'rollout' },
  '1 turn': { turns: 1, commits: 'rollout' },
} satisfies Record<string, Pick<WriteOrder, 'turns' | 'commits'>>;

interface Paced extends Written {
  store: StorePlace['kind'];
  lanes: number;
  way: string;
  database: { cpu_ms: number; transactions: number };
}

/** Modules of the bench have the extension of this one: `.ts` under tsx, `.js` when compiled. */
const EXTENSION = import.meta.url.slice(import.meta.url.lastIndexOf('.'));

export const startWriter = (place: StorePlace): Promise<ContenderProcess<WriteOrder>> =>
  startProcess<WriteOrder>(new URL(`./writer${EXTENSION}`, import.meta.url), [
    JSON.stringify(place),
  ]);

export async function measurePace(
  database: Database,
  { lanes, for_ms, root }: PaceOptions & { root: string },
): Promise<string> {
  const paced: Paced[] = [];
  for (const store of ['file', 'postgres'] as const) {
    const writer = await startWriter({ kind: store, root, url: database.url });
    const order = { lanes: 32, for_ms, pause_ms: 0, ...WAYS[BEHIND_EACH] };
    await writer.ask({ ...order, batch_id: 'warm-up' });
    for (const [way, how] of Object.entries(WAYS))
      for (const count of lanes) {
        const batch_id = `pace-${how.commits}-${how.turns}-${count}`;
        const asked = { ...order, ...how, batch_id, lanes: count };
        paced.push(await playOne(asked, { way, store, writer, database }));
      }
    await writer.stop();
  }
  return `${tableOf(paced)}\n\n${saturation(paced)}`;
}

async function playOne(
  order: WriteOrder,
  {
    way,
    store,
    writer,
    database,
  }: Pick<Paced, 'way' | 'store'> & { writer: ContenderProcess<WriteOrder>; database: Database },
): Promise<Paced> {
  const before = { cpu: await database.cpu(), transactions: await transactionsOf(database) };
  const written = (await writer.ask(order)) as Written;
  const cpu_ms = (await database.cpu()) - before.cpu;
  const transactions = (await transactionsOf(database)) - before.transactions;
  return { ...written, way, store, lanes: order.lanes, database: { cpu_ms, transactions } };
}

async function transactionsOf({ query }: Database): Promise<number> {
  // Idle backends report their statistics, at most once a second.
  await new Promise((resolve) => setTimeout(resolve, 1200));
  const [row] = await query<{ n: string }>(
    `select xact_commit as n from pg_stat_database where datname = current_database()`,
  );
  return Number(row?.n ?? 0);
}

const coresOf = ({ cpu_ms, database, store, wall_s }: Paced): number =>
  (cpu_ms + (store === 'postgres' ? database.cpu_ms : 0)) / 1000 / wall_s;

function tableOf(paced: readonly Paced[]): string {
  const head = [
    'store',
    'rollouts and their commits',
    'rollouts at once',
    'commits/s',
    'lines/s',
    'trajectories/s',
    'CPU ms/trajectory worker',
    'CPU ms/trajectory PostgreSQL',
    'lines/s and core',
    'trajectories/s and core',
    'commits a transaction',
    'commit ms median',
    'p99',
  ];
  const rows = paced.map((one) => {
    const { store, way, lanes, commits, lines, rollouts, wall_s, cpu_ms, database, latency } = one;
    const inTables = (text: string): string => (store === 'postgres' ? text : '-');
    const core_s = wall_s * coresOf(one);
    return [
      store,
      way,
      String(lanes),
      (commits / wall_s).toFixed(0),
      (lines / wall_s).toFixed(0),
      (rollouts / wall_s).toFixed(0),
      (cpu_ms / rollouts).toFixed(2),
      inTables((database.cpu_ms / rollouts).toFixed(2)),
      (lines / core_s).toFixed(0),
      (rollouts / core_s).toFixed(0),
      inTables((commits / database.transactions).toFixed(1)),
      latency.median.toFixed(1),
      latency.p99.toFixed(1),
    ];
  });
  return `${table(head, rows)}\n\nWhat a commit reports is durable; a claim is a commit too. verl's durable buffer, on its own machine, one process: 2,800 to 2,900 finished trajectories/s (verl#7579, 11.3).`;
}

/** What is busy at the highest rate: one event loop, or the database. */
function saturation(paced: readonly Paced[]): string {
  const lines = (['file', 'postgres'] as const).flatMap((store) => {
    const of = paced.filter((one) => one.store === store && one.way === BEHIND_EACH);
    const best = of.sort((a, b) => b.lines / b.wall_s - a.lines / a.wall_s)[0];
    if (best === undefined) return [];
    const busy = (ms: number): string => `${((ms / 1000 / best.wall_s) * 100).toFixed(0)} %`;
    const database = store === 'file' ? '' : `, PostgreSQL ${busy(best.database.cpu_ms)}`;
    return [
      `${store}: most lines a second with ${best.lanes} at once; of a core the writing process has ${busy(best.cpu_ms)}${database}`,
    ];
  });
  return lines.join('\n');
}
