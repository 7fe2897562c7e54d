import path from 'node:path';
import { readJournal } from '../test/harness/batch.js';
import type { KeptWorker } from '../test/harness/kept-worker.js';
import type { RecoveryBed } from '../test/harness/recovery-bed.js';
import { requestLogOf } from '../test/harness/simulator-process.js';
import type { JournalLine } from '../src/model/journal.js';
import type { ChaosFault } from './faults.js';
import { followLog } from './log-follower.js';
import type { Evidence } from './measurement.js';
import type { Cost } from './report.js';
import { streamsOf } from './request-streams.js';
import type { Moment } from './schedule.js';
import { strike } from './strike.js';
import type { Target } from './target.js';
import type { Workload } from './workload.js';
import { requestOf } from './workload.js';

/** What every contender is given. */
export interface Play {
  bed: RecoveryBed;
  fault: ChaosFault;
  moments: readonly Moment[];
  workload: Workload;
}

export interface DurableRun {
  evidence: Evidence;
  cost: Cost;
  /** Attempts beyond the first, of all rollouts. */
  extra_attempts: number;
}

/** One batch under one fault, in a store and on a task queue of its own. */
export async function playDurable({ bed, fault, moments, workload }: Play): Promise<DurableRun> {
  const batch_id = `chaos-${fault.name}`;
  const workers = [await bed.startWorker(fault.name)];
  if (fault.part === 'two_workers') {
    workers.push(await bed.startWorker(fault.name, `worker-${fault.name}-other`));
  }
  const log = await followLog(requestLogOf(bed.directory));
  const batch = bed.batch(fault.name, batch_id);
  const journals = path.join(bed.storeRoot(fault.name), batch_id, 'journals');
  await batch.start(requestOf(workload));
  const target = targetOf(bed, { worker: workers[0], journals });
  const hits = await strike({ fault, moments, log, target });
  const { rollouts, failures } = await batch.outcome();
  const { startTime, closeTime } = await batch.handle().describe();
  await Promise.all(workers.map((worker) => worker.stop()));
  const streams = streamsOf(await log.read());
  const useful = rollouts.reduce((sum, { assistant_tokens }) => sum + assistant_tokens, 0);
  const sent = streams.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
  return {
    evidence: {
      ...{ rollouts, failures, streams, hits },
      requested: workload.rollouts,
      journals: await journalsOf(bed, { store: fault.name, batch_id, rollouts: workload.rollouts }),
      interrupts: fault.interrupts,
    },
    cost: {
      wasted_tokens: sent - useful,
      time_to_finish_s: ((closeTime ?? new Date()).getTime() - startTime.getTime()) / 1000,
    },
    extra_attempts: rollouts.reduce((sum, { attempts }) => sum + attempts - 1, 0),
  };
}

function targetOf(
  bed: RecoveryBed,
  { worker, journals }: { worker: KeptWorker | undefined; journals: string },
): Omit<Target, 'index'> {
  if (worker === undefined) throw new Error('expected a worker, got none');
  return { player: worker, ...partsOf(bed), journals };
}

/** The parts that all contenders share. */
export function partsOf(bed: RecoveryBed): Pick<Target, 'engine' | 'server'> {
  const signal = (pid: number, name: NodeJS.Signals): void => {
    process.kill(pid, name);
  };
  return {
    engine: {
      kill: () => bed.killSimulator(),
      start: () => bed.startSimulator(),
      inject: (spec) => bed.simulator().inject(spec),
      pause: () => {
        signal(bed.simulator().pid, 'SIGSTOP');
      },
      resume: () => {
        signal(bed.simulator().pid, 'SIGCONT');
      },
    },
    server: {
      kill: () => bed.killServer(),
      start: () => bed.startServer(),
      pause: () => {
        signal(bed.server().pid, 'SIGSTOP');
      },
      resume: () => {
        signal(bed.server().pid, 'SIGCONT');
      },
    },
  };
}

async function journalsOf(
  bed: RecoveryBed,
  { store, batch_id, rollouts }: { store: string; batch_id: string; rollouts: number },
): Promise<Map<string, JournalLine[]>> {
  const journals = new Map<string, JournalLine[]>();
  for (let row = 0; row < rollouts; row++) {
    const place = { batch_id, row, repeat: 0 };
    journals.set(`${batch_id}/${row}-0`, await readJournal(bed.storeRoot(store), place));
  }
  return journals;
}
