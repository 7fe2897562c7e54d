import { mkdir, rm } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { readOptions, wrongUsage } from '../../options.js';
import { machine } from '../report.js';
import { capacityTable } from './capacity.js';
import type { Database } from './database.js';
import { startDatabase } from './database.js';
import { measurePace } from './pace.js';
import { measureTables } from './tables.js';
import type { TurnCosts, TurnsOptions } from './turns.js';
import { measureTurns, turnsTable } from './turns.js';

const USAGE = `node --import tsx lab/bench/stores/main.ts [--quick] [PART …]      (after npm run build)

  tables   100,000 rollouts in PostgreSQL: listing, following, closing and deleting one batch, alone and beside another
  pace     commits, lines and trajectories a second and core, in files and in PostgreSQL
  turns    processor time of a turn with either store, and what many rollouts need
  --quick  a small size of each: that it runs, not what it says`;

const SIZES = {
  full: {
    tables: { rollouts: [1000, 100_000], rounds: 3 },
    pace: { lanes: [1, 16, 64, 256, 1024], for_ms: 10_000 },
    turns: [
      { rollouts: 64, rounds: 5, turn_ms: 0 },
      { rollouts: 128, rounds: 3, turn_ms: 3000 },
    ],
  },
  quick: {
    tables: { rollouts: [1000, 3000], rounds: 1 },
    pace: { lanes: [1, 64], for_ms: 1500 },
    turns: [
      { rollouts: 32, rounds: 2, turn_ms: 0 },
      { rollouts: 16, rounds: 1, turn_ms: 3000 },
    ],
  },
} as const;

interface Run {
  database: Database;
  folder: string;
  size: (typeof SIZES)[keyof typeof SIZES];
}

const tables = ({ database, folder, size }: Run): Promise<string> =>
  measureTables(database, { ...size.tables, root: path.join(folder, 'tables') });

const pace = ({ database, folder, size }: Run): Promise<string> =>
  measurePace(database, { ...size.pace, root: path.join(folder, 'pace') });

async function turns({ database, size }: Run): Promise<string> {
  const measured: (TurnsOptions & { costs: TurnCosts })[] = [];
  for (const options of size.turns)
    measured.push({ ...options, costs: await measureTurns(database, options) });
  const last = measured.at(-1)?.costs.postgres;
  return `${turnsTable(measured)}\n\n${last === undefined ? '' : capacityTable(last)}`;
}

const PARTS = { tables, pace, turns };

async function main(): Promise<void> {
  const { quick, words } = readOptions({ usage: USAGE }, { quick: false });
  const names = Object.keys(PARTS) as (keyof typeof PARTS)[];
  const wanted = names.filter((name) => words.length === 0 || words.includes(name));
  const unknown = words.find((name) => !(name in PARTS));
  if (unknown !== undefined) wrongUsage(USAGE, `expected ${names.join(', ')}, got ${unknown}`);
  const folder = path.join(PROJECT_ROOT, '.rollouts', `bench-stores-${process.pid}`);
  const size = SIZES[quick ? 'quick' : 'full'];
  const load = (loadavg()[0] ?? 0).toFixed(1);
  console.log(`${machine()}, load average before it ${load}${quick ? ', quick form' : ''}.`);
  for (const name of wanted) {
    // Each measurement has its own database, so the data of one does not slow down the next.
    await mkdir(folder, { recursive: true });
    const database = await startDatabase(path.join(folder, 'outputs'));
    try {
      console.log(`\n## ${name}\n\n${await PARTS[name]({ database, folder, size })}`);
    } finally {
      await database.end();
      await rm(folder, { recursive: true, force: true, maxRetries: 3 });
    }
  }
}

await main();
