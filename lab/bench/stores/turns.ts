import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { WorkerProcess } from '../../bed/worker.js';
import { median } from '../measure.js';
import { cpuMs } from '../process-usage.js';
import { table } from '../report.js';
import { AT_ONCE, SLOW, TURNS } from '../scenario.js';
import type { Stack } from '../../bed/stack.js';
import { checkPlayed, resultOf, setPace, startBatch, startPuzzles } from '../puzzles.js';
import type { Database, StorePlace } from './database.js';
import { SCHEMA } from './database.js';

/** Processor time of a turn, part by part, with journals in files and in PostgreSQL: the same batch, in alternation. */

export interface TurnsOptions {
  rollouts: number;
  rounds: number;
  turn_ms: 0 | 3000;
}

/** CPU milliseconds of a turn, and bytes of write-ahead log. */
export interface TurnCost {
  worker: number;
  temporal: number;
  postgres: number;
  wal_bytes: number;
}

export interface TurnCosts {
  file: TurnCost;
  postgres: TurnCost;
  /** The worker's, in each round. */
  ratios: number[];
}

const KINDS = ['file', 'postgres'] as const;
const SETTLE_MS = 1500;

export async function measureTurns(
  database: Database,
  { rollouts, rounds, turn_ms }: TurnsOptions,
): Promise<TurnCosts> {
  const stack = await startPuzzles({ rollouts });
  await setPace(stack, turn_ms === 0 ? AT_ONCE : SLOW);
  const workers = new Map<StorePlace['kind'], WorkerProcess>();
  const costs: Record<StorePlace['kind'], TurnCost[]> = { file: [], postgres: [] };
  try {
    for (const kind of KINDS) workers.set(kind, await startWorker(kind, { stack, database }));
    for (let round = 0; round <= rounds; round++)
      for (const kind of KINDS) {
        const pid = workers.get(kind)?.pid ?? 0;
        const cost = await playOne(`${kind}-${turn_ms}-${round}`, {
          kind,
          pid,
          stack,
          database,
          rollouts,
        });
        // The first round warms up.
        if (round > 0) costs[kind].push(cost);
      }
  } finally {
    await stack.end();
  }
  const ratios = costs.file.map(({ worker }, i) => (costs.postgres[i]?.worker ?? NaN) / worker);
  return { file: medianOf(costs.file), postgres: medianOf(costs.postgres), ratios };
}

async function startWorker(
  kind: StorePlace['kind'],
  { stack, database }: { stack: Stack; database: Database },
): Promise<WorkerProcess> {
  const secret = path.join(stack.directory, 'database-url');
  await writeFile(secret, database.url, { mode: 0o600 });
  const outputs = { root: path.join(stack.directory, 'outputs') };
  return await stack.startWorker({
    task_queue: kind,
    worker: { turn_slice: '2s' },
    ...(kind === 'postgres' && { store: { kind, url_file: secret, schema: SCHEMA, outputs } }),
  });
}

async function playOne(
  batchId: string,
  {
    kind,
    pid,
    stack,
    database,
    rollouts,
  }: { kind: string; pid: number; stack: Stack; database: Database; rollouts: number },
): Promise<TurnCost> {
  const now = async (): Promise<TurnCost> => ({
    worker: await cpuMs(pid),
    temporal: await cpuMs(stack.ownServer().pid),
    postgres: await database.cpu(),
    wal_bytes: await walBytes(database),
  });
  const before = await now();
  const handle = await startBatch(stack, {
    id: batchId,
    task_queue: kind,
    limit: rollouts,
    max_rollout_turns: TURNS,
    max_in_flight: rollouts,
  });
  const result = await resultOf(stack, handle);
  checkPlayed(result, { rollouts, turns: TURNS });
  const turns = rollouts * TURNS;
  await sleep(SETTLE_MS);
  const after = await now();
  const each = (part: keyof TurnCost): number => (after[part] - before[part]) / turns;
  return {
    worker: each('worker'),
    temporal: each('temporal'),
    postgres: each('postgres'),
    wal_bytes: each('wal_bytes'),
  };
}

async function walBytes({ query }: Database): Promise<number> {
  const [row] = await query<{ n: string }>(`select pg_current_wal_lsn() - '0/0'::pg_lsn as n`);
  return Number(row?.n ?? 0);
}

const medianOf = (costs: readonly TurnCost[]): TurnCost => {
  const of = (part: keyof TurnCost): number => median(costs.map((cost) => cost[part]));
  return {
    worker: of('worker'),
    temporal: of('temporal'),
    postgres: of('postgres'),
    wal_bytes: of('wal_bytes'),
  };
};

const LIMIT = 1.3;

export function turnsTable(measured: readonly (TurnsOptions & { costs: TurnCosts })[]): string {
  const head = ['batch', 'store', 'CPU ms/turn worker', 'PostgreSQL', 'Temporal', 'WAL bytes/turn'];
  const nameOf = ({ rollouts, turn_ms }: TurnsOptions): string =>
    `${rollouts} at once, ${turn_ms === 0 ? 'turns of no time' : `turns of ${turn_ms / 1000} s`}`;
  const rows = measured.flatMap(({ costs, ...options }) =>
    KINDS.map((kind) => {
      const { worker, postgres, temporal, wal_bytes } = costs[kind];
      const inTables = (value: number, digits: number): string =>
        kind === 'postgres' ? value.toFixed(digits) : '-';
      return [
        nameOf(options),
        kind,
        worker.toFixed(2),
        inTables(postgres, 2),
        temporal.toFixed(2),
        inTables(wal_bytes, 0),
      ];
    }),
  );
  const verdicts = measured.map(({ costs, ...options }) => {
    const ratio = median(costs.ratios);
    const all = costs.ratios.map((one) => one.toFixed(2)).join(', ');
    return `${ratio <= LIMIT ? 'PASS' : 'FAIL'}  ${nameOf(options)}: worker CPU/turn (postgres) <= ${LIMIT} x (file): ${ratio.toFixed(2)} x (rounds: ${all})`;
  });
  return `${table(head, rows)}\n\n\`\`\`text\n${verdicts.join('\n')}\n\`\`\``;
}
