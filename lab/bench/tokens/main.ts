import { mkdir, rm } from 'node:fs/promises';
import path from 'node:path';
import { PROJECT_ROOT } from '../../../src/platform/project-root.js';
import { readOptions } from '../../options.js';
import { startProcess } from '../contender-process.js';
import { median } from '../measure.js';
import { SCHEMA, startDatabase } from '../stores/database.js';
import { heading, row } from '../streams/play.js';
import type { Order, Stage, Taken } from './player.js';

const USAGE = `node --import tsx lab/bench/tokens/main.ts [--build NAME=FOLDER …] [--only TEXT] [--stage NAME …] [--rounds N] [--postgres]

  What a streamed token costs from the socket to the journal: 16 answers of 1,500 tokens at once, as vLLM was recorded.
  It needs npm run build.

  --build NAME=FOLDER  checkouts, each built, measured in the same rounds; default: this one
  --only TEXT          only streams whose line contains it, such as "generate 1"
  --stage NAME         only these stages
  --rounds N           after one that warms up; default 2
  --postgres           also into the journals of PostgreSQL`;

const STREAMS = 16;
const TOKENS = 1500;
const STAGES: readonly Stage[] = ['socket', 'http', 'adapter', 'sampling', 'file'];
/** `each`: tokens an event. `gap_ms`: between two events of a stream. */
const CASES = [
  { wire: 'completions', each: 1, gap_ms: 4 },
  { wire: 'generate', each: 1, gap_ms: 4 },
  { wire: 'completions', each: 8, gap_ms: 32 },
  { wire: 'generate', each: 8, gap_ms: 32 },
] as const;
type Case = (typeof CASES)[number];

interface Player {
  name: string;
  ask: (order: Order) => Promise<unknown>;
  stop: () => Promise<void>;
}

interface Measuring {
  engine: string;
  players: readonly Player[];
  stages: readonly Stage[];
  rounds: number;
}

let batches = 0;

/** Microseconds of processor time a token, by player and stage; players take turns. The first round warms up. */
async function measureCase(
  { wire, each, gap_ms }: Case,
  { engine, players, stages, rounds }: Measuring,
): Promise<Map<string, number[]>> {
  const found = new Map<string, number[]>();
  for (let round = 0; round <= rounds; round++)
    for (const stage of stages)
      for (const { name, ask } of players) {
        const base_url = `${engine}/${TOKENS}-${each}-${gap_ms}/v1`;
        const order = {
          stage,
          base_url,
          wire,
          streams: STREAMS,
          tokens: TOKENS,
          batch_id: `b${batches++}`,
        };
        const { cpu_ms } = (await ask(order)) as Taken;
        if (round === 0) continue;
        const key = `${name} ${stage}`;
        found.set(key, [...(found.get(key) ?? []), (cpu_ms * 1000) / (STREAMS * TOKENS)]);
      }
  return found;
}

const { build, stage, rounds, only, postgres } = readOptions(
  { usage: USAGE },
  {
    build: [`now=${PROJECT_ROOT}`],
    only: '',
    stage: [],
    rounds: 2,
    postgres: false,
  },
);
const builds = build.map((one) => one.split('=', 2) as [string, string]);
const stages = [...STAGES, ...(postgres ? (['postgres'] as const) : [])].filter(
  (one) => stage.length === 0 || stage.includes(one),
);
const folder = path.join(PROJECT_ROOT, '.rollouts', `bench-tokens-${process.pid}`);
await mkdir(folder, { recursive: true });
const engine = await startProcess<object>(new URL('./engine.ts', import.meta.url), []);
const engine_url = String(await engine.ask({}));
const database = postgres ? await startDatabase(path.join(folder, 'outputs')) : null;
const place = { root: path.join(folder, 'files'), url: database?.url ?? null, schema: SCHEMA };
const module = new URL('./player.ts', import.meta.url);
const players = await Promise.all(
  builds.map(async ([name, build]): Promise<Player> => {
    const args = [path.resolve(build), JSON.stringify(place)];
    const player = await startProcess<Order>(module, args);
    return { name, ask: (order) => player.ask(order), stop: () => player.stop() };
  }),
);
try {
  console.log(heading(['wire', 'tokens an event', 'build', ...stages]));
  for (const one of CASES) {
    if (!`${one.wire} ${one.each}`.includes(only)) continue;
    const found = await measureCase(one, { engine: engine_url, players, stages, rounds });
    for (const { name } of players) {
      const costs = stages.map((stage) => median(found.get(`${name} ${stage}`) ?? []).toFixed(1));
      console.log(row([one.wire, one.each, name, ...costs]));
    }
  }
} finally {
  await engine.stop();
  await Promise.all(players.map(({ stop }) => stop()));
  await database?.end();
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}
