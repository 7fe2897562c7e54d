import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { closingTimes, historySizes } from '../histories.js';
import type { Stack } from '../../bed/stack.js';
import { journalBytes } from './journal-bytes.js';
import type { ManyOptions, ManyRun, Phase } from './phases.js';
import { BATCH, keepPace, play } from './play.js';
import type { PerPart, Reading, Watched } from './readings.js';
import { loopBetween, readAll } from './readings.js';
import { phaseLine } from './report.js';
import { startWorkers } from './workers.js';

const IDLE_AFTER_MS = 4000;
const IDLE_MS = 8000;

export async function measureMany(
  stack: Stack & { metrics_port: number },
  { say, ...options }: ManyOptions & { say: (line: string) => void },
): Promise<ManyRun> {
  const started = await startWorkers(stack, options);
  const { workers, loops, outputs } = started;
  const directory = path.join(outputs, BATCH);
  const watched: Watched = {
    server: stack.ownServer().pid,
    workers: workers.map(({ pid }) => pid),
    simulator: stack.simulator().pid,
    metrics_port: stack.metrics_port,
  };
  const pace = keepPace(stack, options);
  try {
    await sleep(IDLE_AFTER_MS);
    const before = await readAll(watched);
    await sleep(IDLE_MS);
    const idle = await readAll(watched);
    const phases: Phase[] = [];
    const phase = async (name: Phase['name'], run: () => Promise<number>): Promise<void> => {
      const before = phases.at(-1)?.after ?? idle;
      const count = await run();
      const after = await readAll(watched);
      const loop = await loopBetween(loops, { from: before.at_ms, to: after.at_ms });
      phases.push({ name, count, before, after, loop });
      say(`  ${phaseLine({ name, count, before, after, loop })}`);
    };
    await play(stack, { ...options, directory, phase });
    return {
      ...options,
      idle,
      idle_cpu_ms: idleCost(before, idle),
      phases,
      histories: await historySizes(stack.server().client),
      closing_s: (await closingTimes(stack.server().client)).batch_s,
      journals: await journalBytes(path.join(directory, 'journals')),
      database_mb: await databaseMb(path.join(stack.directory, 'database')),
    };
  } finally {
    pace.end();
  }
}

const idleCost = (before: Reading, after: Reading): PerPart => {
  const of = (part: keyof PerPart): number =>
    (1000 * (after.cpu_ms[part] - before.cpu_ms[part])) / (after.at_ms - before.at_ms);
  return { server: of('server'), workers: of('workers'), simulator: of('simulator') };
};

async function databaseMb(folder: string): Promise<number> {
  const names = (await readdir(folder)).filter((name) => name.startsWith('temporal.db'));
  const sizes = await Promise.all(names.map((name) => stat(path.join(folder, name))));
  return sizes.reduce((sum, { size }) => sum + size, 0) / 1e6;
}
