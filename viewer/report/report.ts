import { inOrder } from '../../src/client/show/entry.js';
import { allOf, severalAtOnce } from '../../src/platform/waits/several-at-once.js';
import type {
  ReportDocument,
  RolloutEntry,
  RolloutFacts,
  RunDocument,
  RunEntry,
} from '../documents.js';
import { readDocument } from '../read/rollout.js';
import type { RunStore } from '../read/runs.js';
import { createRunReader } from '../read/runs.js';
import type { Bundle } from '../shell.js';
import { aroundReport } from '../shell.js';
import { packedBlock, plainBlock } from './blocks.js';
import { openReport } from './files.js';

/** What a report is about: a batch or stream, or some of it. */
export interface Target {
  id: string;
  /** Of a stream; null: all. */
  steps: { first: number; last: number } | null;
  /** null: all. */
  row: number | null;
  repeat: number | null;
}

export interface ReportOptions {
  store: RunStore;
  bundle: Bundle;
  file: string;
  /** Of one file. */
  max_bytes: number;
}

/** Room for what the overview says of each rollout, which is known only at the end. */
const FACTS_BYTES = 500;
/** For all else. */
const OVERVIEW_BYTES = 1 << 16;

/**
 * Writes a report: one file, or several with the same overview, each with the documents of some rollouts. Only what is
 * said of all of them is held in memory. Returns the files, and how many rollouts they have.
 */
export async function writeReport(
  targets: readonly Target[],
  { store, bundle, file, max_bytes }: ReportOptions,
): Promise<{ rollouts: number; files: { name: string; bytes: number }[] }> {
  const runs = await runsOf(targets, store);
  const ids = runs.map(({ run }) => run.id);
  const { before, after } = aroundReport(bundle, ids.join(' and '));
  const overview = await Promise.all(
    runs.flatMap(({ run, entries }) => [
      packedBlock(`run:${run.id}`, run),
      packedBlock(`rollouts:${run.id}`, entries),
    ]),
  );
  const rollouts = runs.reduce((sum, { entries }) => sum + entries.length, 0);
  const taken = [before, after, ...overview].reduce(
    (sum, text) => sum + Buffer.byteLength(text),
    0,
  );
  const room = max_bytes - taken - OVERVIEW_BYTES - rollouts * FACTS_BYTES;
  if (room <= 0)
    throw new Error(
      `--max-size: expected more than ${megabytes(max_bytes - room)} for the overview of ${rollouts} rollouts, got ${megabytes(max_bytes)}`,
    );
  const files = openReport(file, { before, room });
  try {
    const places: Record<string, string> = {};
    for (const { run, entries } of runs) {
      const facts: RolloutFacts[] = [];
      const refs = entries.map(({ row, repeat }) => ({ batch_id: run.id, row, repeat }));
      const packed = severalAtOnce(refs, async (ref) => {
        const document = await readDocument(ref, store);
        const block = await packedBlock(`rollout:${document.id}`, document);
        return { id: document.id, facts: document.facts, block };
      });
      for await (const one of packed) {
        facts.push(one.facts);
        places[one.id] = await files.put(one.block);
      }
      overview.push(await packedBlock(`facts:${run.id}`, facts));
    }
    const report: ReportDocument = {
      made_at: Date.now() / 1000,
      runs: runs.map(({ run }) => entryOf(run)),
      files: new Set(Object.values(places)).size > 1 ? places : {},
    };
    const written = await files.close([...overview, plainBlock('report', report), after].join(''));
    return { rollouts, files: written };
  } catch (error) {
    await files.abandon();
    throw error;
  }
}

const megabytes = (bytes: number): string => `${(bytes / 1e6).toFixed(1)} MB`;

/** A run, and which of its rollouts. */
interface Part {
  run: RunDocument;
  entries: RolloutEntry[];
}

/** Each once, with the rollouts that are asked for. */
async function runsOf(targets: readonly Target[], store: RunStore): Promise<Part[]> {
  const runs: Part[] = [];
  for (const id of new Set(targets.map((target) => target.id))) {
    const reader = createRunReader(store, id);
    const run = await reader.run();
    if (run === null) throw new Error(`no batch or stream ${id} in ${store.name}`);
    const own = targets.filter((target) => target.id === id);
    runs.push(partOf({ run, entries: await allOf(reader.entries()) }, own));
  }
  return runs;
}

function partOf({ run, entries }: Part, targets: readonly Target[]): Part {
  const wanted = targets.map((target) => {
    const rollouts = entries.filter(isIn(run, target));
    const { id, steps, row, repeat } = target;
    if (rollouts.length === 0 && (steps !== null || row !== null))
      throw new Error(
        `${id}: expected rollouts ${whatOf({ steps, row, repeat })}, got none: the store has ${entries.length} of it`,
      );
    return rollouts;
  });
  const some = new Set(wanted.flat());
  const steps = targets.map(({ steps }) => steps);
  const closed_steps = run.closed_steps.filter(({ step }) =>
    steps.some((one) => one === null || (step >= one.first && step <= one.last)),
  );
  return {
    run: { ...run, begun: some.size, closed_steps },
    entries: entries.filter((entry) => some.has(entry)).sort(inOrder),
  };
}

function isIn(
  { closed_steps }: RunDocument,
  { steps, row, repeat }: Target,
): (of: { row: number; repeat: number }) => boolean {
  const groups =
    steps &&
    new Set(
      closed_steps
        .filter(({ step }) => step >= steps.first && step <= steps.last)
        .flatMap((step) => step.groups),
    );
  return (of) =>
    (groups === null || groups.has(of.row)) &&
    (row === null || of.row === row) &&
    (repeat === null || of.repeat === repeat);
}

const whatOf = ({ steps, row, repeat }: Omit<Target, 'id'>): string =>
  steps === null
    ? `of row ${row ?? ''}${repeat === null ? '' : `, repeat ${repeat}`}`
    : `of steps ${steps.first} to ${steps.last}`;

const entryOf = (run: RunDocument): RunEntry => {
  const { id, kind, created_at, is_closed, requested, completed, mean_reward } = run;
  const { steps, forked_from, problem } = run;
  return {
    ...{ id, kind, created_at, is_closed, requested, completed, mean_reward },
    ...{ steps, forked_from, problem },
  };
};
