import type { KeptWorker } from '../bed/kept-worker.js';
import type { RecoveryBed } from '../bed/bed.js';
import { freezing } from '../bed/freezing.js';
import { requestLogOf } from '../bed/simulator.js';
import type { JournalLine } from '../../src/model/journal.js';
import type { JournalTexts } from '../bed/journal-texts.js';
import { linesOf } from '../bed/journal-texts.js';
import type { ChaosFault } from './fault.js';
import { followLog } from './log-follower.js';
import type { Evidence } from './measurement.js';
import type { Cost } from './report.js';
import { streamsOf } from './request-streams.js';
import type { Moment } from './schedule.js';
import type { StoredBed } from './stores.js';
import { OTHER_WORKER, STORE, WORKER } from './stores.js';
import { strike } from './strike.js';
import type { Target } from './target.js';
import type { Workload } from './workload.js';
import { requestOf } from './workload.js';

/** Processes that live through several faults; a worker that ends is started again. */
export interface Stage extends StoredBed {
  worker: KeptWorker;
}

export async function openStage(start: () => Promise<StoredBed>): Promise<Stage> {
  const stored = await start();
  try {
    return { ...stored, worker: await stored.bed.startWorker(STORE, WORKER) };
  } catch (error) {
    await stored.bed.end();
    throw error;
  }
}

/** The input of every contender. */
export interface Play {
  stage: Stage;
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

/** One batch under one fault. */
export async function playDurable({ stage, fault, moments, workload }: Play): Promise<DurableRun> {
  const { bed, worker, storeOf } = stage;
  const batch_id = `chaos-${fault.name}`;
  const other = fault.part === 'two_workers' ? await bed.startWorker(STORE, OTHER_WORKER) : null;
  const log = await followLog(requestLogOf(bed.directory));
  const batch = bed.batch(STORE, batch_id);
  const store = storeOf(batch_id);
  await batch.start(requestOf(workload));
  const target = { player: worker, ...partsOf(bed), ...store };
  const hits = await strike({ fault, moments, log, target });
  const { rollouts, failures } = await batch.outcome();
  const { startTime, closeTime } = await batch.handle().describe();
  await other?.stop();
  const streams = streamsOf(await log.read());
  const useful = rollouts.reduce((sum, { assistant_tokens }) => sum + assistant_tokens, 0);
  const sent = streams.reduce((sum, { tokens_sent }) => sum + tokens_sent, 0);
  return {
    evidence: {
      ...{ rollouts, failures, streams, hits },
      requested: workload.rollouts,
      journals: linesOfAll(await store.journals()),
      interrupts: fault.interrupts,
    },
    cost: {
      wasted_tokens: sent - useful,
      time_to_finish_s: ((closeTime ?? new Date()).getTime() - startTime.getTime()) / 1000,
    },
    extra_attempts: rollouts.reduce((sum, { attempts }) => sum + attempts - 1, 0),
  };
}

/** The parts that all contenders share. */
export const partsOf = (bed: RecoveryBed): Pick<Target, 'engine' | 'server'> => ({
  engine: bed.engines[0]!,
  server: {
    kill: bed.killServer,
    start: bed.startServer,
    ...freezing(() => bed.ownServer().pid),
  },
});

export const linesOfAll = (journals: JournalTexts): Map<string, JournalLine[]> =>
  new Map([...journals].map(([rollout, text]) => [rollout, linesOf(text)]));
