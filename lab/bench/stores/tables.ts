import { BatchRequest } from '../../../src/model/batch-request.js';
import { createBatchReader } from '../../../src/client/show/read-batch.js';
import { batchToFold, foldRows } from '../../../src/activities/close/fold-rows.js';
import { rowsOf } from '../../../src/model/workflow-safe/slices.js';
import type { TrajectoryStore } from '../../../src/trajectories/trajectory-store.js';
import type { ContenderProcess } from '../contender-process.js';
import { median } from '../measure.js';
import { table } from '../report.js';
import { puzzleSamples } from '../samples.js';
import type { Database } from './database.js';
import { SCHEMA, openBenchStore } from './database.js';
import { TURNS, endEntry, startEntry, turnEntries } from './lines.js';
import { startWriter } from './pace.js';
import type { WriteOrder, Written } from './writer.js';

/** Operations on one batch while the tables hold many rollouts, alone and while another batch is written. */

export interface TablesOptions {
  /** Rollouts in the tables, at the beginning and at the end. */
  rollouts: readonly [number, number];
  rounds: number;
}

/** Rollouts of each batch. */
const BATCH = { samples: 125, repeats: 8 };
const ROLLOUTS = BATCH.samples * BATCH.repeats;
/** The other batch: each of its rollouts pauses between two turns. */
const BESIDE = { lanes: 64, turns: TURNS, pause_ms: 200, for_ms: 1000 };
const COMMITS = 'a commit of the other batch, p99';

const ROWS = Array.from({ length: BATCH.samples }, (_, row) => row);

export async function measureTables(
  database: Database,
  { rollouts, rounds, root }: TablesOptions & { root: string },
): Promise<string> {
  const place = { kind: 'postgres', root, url: database.url } as const;
  const { store, close } = openBenchStore(place);
  const writer = await startWriter(place);
  const cells: Cell[] = [];
  const bed = { store, database };
  try {
    await putTemplate(store);
    let batches = 0;
    for (const size of rollouts) {
      for (; batches * ROLLOUTS < size; batches++) await putBatch(`batch-${batches}`, bed);
      await database.query(`analyze ${SCHEMA}.journal`);
      // The first operation is compiled and planned first.
      await operate('batch-0', bed);
      await putBatch('batch-0', bed);
      for (let round = 0; round < rounds; round++) {
        const batch_id = `batch-${round % batches}`;
        const name = `beside-${size}-${round}`;
        for (const spent of await operate(batch_id, bed))
          cells.push({ size, beside: false, ...spent });
        await putBatch(batch_id, bed);
        const besides = await whileWriting(writer, { name, run: () => operate(batch_id, bed) });
        for (const spent of besides) cells.push({ size, beside: true, ...spent });
        await putBatch(batch_id, bed);
        cells.push({ size, beside: false, ...(await commitsOf(writer, `${name}-alone`)) });
      }
    }
  } finally {
    await writer.stop();
    await close();
  }
  return tableOf(cells, rollouts);
}

interface Bed {
  store: TrajectoryStore;
  database: Database;
}

interface Spent {
  operation: string;
  ms: number;
  /** CPU of this process and the database. If another batch is written, its share is included. */
  cpu_ms: number;
}

interface Cell extends Spent {
  size: number;
  beside: boolean;
}

/** The operation's own costs, and the 99th percentile of the other batch's commits meanwhile. */
async function whileWriting(
  writer: ContenderProcess<WriteOrder>,
  { name, run }: { name: string; run: () => Promise<Spent[]> },
): Promise<Spent[]> {
  const state = { is_over: false };
  const running = run().finally(() => (state.is_over = true));
  const p99s: Spent[] = [];
  for (let k = 0; !state.is_over; k++) p99s.push(await commitsOf(writer, `${name}-${k}`));
  return [...(await running), ...p99s];
}

async function commitsOf(writer: ContenderProcess<WriteOrder>, batch_id: string): Promise<Spent> {
  const written = (await writer.ask({ ...BESIDE, batch_id, commits: 'turns' })) as Written;
  return { operation: COMMITS, ms: written.latency.p99, cpu_ms: NaN };
}

/** All operations except the last, which deletes the batch, leave it unchanged. */
async function operate(batch_id: string, { store, database }: Bed): Promise<Spent[]> {
  const spent: Spent[] = [];
  const cpuNow = async (): Promise<number> => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1000 + (await database.cpu());
  };
  const timed = async (operation: string, run: () => Promise<unknown>): Promise<void> => {
    const before = await cpuNow();
    const since = performance.now();
    await run();
    const ms = performance.now() - since;
    spent.push({ operation, ms, cpu_ms: (await cpuNow()) - before });
  };
  await timed('listing', () => store.listJournals(batch_id));
  const reader = createBatchReader(store, batch_id);
  await timed('following: first look', () => reader.entries());
  await timed('following: again', () => reader.entries());
  await timed('closing', () => close(batch_id, store));
  await timed('deleting', () =>
    store.forgetJournals({ batch_id, rows: ROWS, repeats: BATCH.repeats }),
  );
  return spent;
}

/** As a closing pass does, without the files. */
async function close(batch_id: string, store: TrajectoryStore): Promise<void> {
  const fold = await batchToFold(
    { batch_id, stopped: false },
    { store, endOf: () => Promise.resolve(null) },
  );
  const { signal } = new AbortController();
  const attempt = { signal, warn: () => undefined };
  const range = { first: 0, last: BATCH.samples - 1 };
  let whole = 0;
  for await (const { row } of foldRows(rowsOf(range), { ...fold, attempt }))
    whole += row.turn_count === TURNS ? 1 : 0;
  if (whole !== ROLLOUTS) throw new Error(`expected ${ROLLOUTS} whole rows, got ${whole}`);
}

const TEMPLATE = { batch_id: 'template', row: 0, repeat: 0 };

/** A journal with a row for each turn; the others are copies of it. */
async function putTemplate(store: TrajectoryStore): Promise<void> {
  const journal = await store.claim(TEMPLATE, { activity: 'playTurns' });
  await journal.append(startEntry());
  for (let turn = 0; turn < TURNS; turn++) {
    for (const entry of turnEntries(turn)) await journal.append(entry);
    await journal.sync();
  }
  await journal.append(endEntry(TURNS));
  await journal.commit();
}

async function putBatch(batch_id: string, { store, database }: Bed): Promise<void> {
  await store.createBatch({
    batch_id,
    request: BatchRequest.parse({ samples: { path: 's' }, num_repeats: BATCH.repeats }),
    samples: puzzleSamples(BATCH.samples).map((sample) => JSON.stringify(sample)),
  });
  await database.query(
    `insert into ${SCHEMA}.journal (rollout, n, writer, lines)
       select $1 || '/' || r || '-' || k, n, writer, lines
         from generate_series(0, $2 - 1) r, generate_series(0, $3 - 1) k, ${SCHEMA}.journal
        where rollout = 'template/0-0'
     on conflict do nothing`,
    [batch_id, BATCH.samples, BATCH.repeats],
  );
}

function tableOf(cells: readonly Cell[], [few, many]: TablesOptions['rollouts']): string {
  const columns: { title: string; beside: boolean; value: (cell: Spent) => number }[] = [
    { title: 'CPU ms', beside: false, value: ({ cpu_ms }) => cpu_ms },
    { title: 'ms', beside: false, value: ({ ms }) => ms },
    { title: 'ms beside another batch', beside: true, value: ({ ms }) => ms },
  ];
  const head = [
    'one batch of 1,000',
    ...columns.flatMap(({ title }) => [`${title}: ${few} in the tables`, `${many}`, 'ratio']),
  ];
  const rows = [...new Set(cells.map(({ operation }) => operation))].map((operation) => [
    operation,
    ...columns.flatMap(({ beside, value }) => {
      const [small = NaN, large = NaN] = [few, many].map((size) =>
        median(
          cells
            .filter(
              (cell) =>
                cell.size === size && cell.beside === beside && cell.operation === operation,
            )
            .map(value),
        ),
      );
      const text = (number: number, digits: number): string =>
        Number.isNaN(number) ? '-' : number.toFixed(digits);
      return [text(small, 1), text(large, 1), text(large / small, 2)];
    }),
  ]);
  return table(head, rows);
}
