import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { BatchRequest } from '../../src/model/batch-request.js';
import { Fault } from '../../src/model/faults.js';
import type { JournalLine } from '../../src/model/journal.js';
import { linesOf } from '../../lab/bed/journal-texts.js';
import type { Formats } from '../../src/model/results/arrow/formats.js';
import { createFileStore } from '../../src/trajectories/files/file-store.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';

/** A folder that is gone after the test. */
export async function temporaryFolder(t: Pick<TestContext, 'after'>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'rollouts-store-'));
  t.after(() => rm(folder, { recursive: true, force: true, maxRetries: 3 }));
  return folder;
}

export interface TemporaryStore {
  root: string;
  store: TrajectoryStore;
  /** The same trajectories, read by another process without any cache. */
  elsewhere: () => TrajectoryStore;
  journalFile: (row?: number, repeat?: number) => string;
  /** The content of the journal of row 0, repeat 0, without torn lines. */
  journalLines: () => Promise<JournalLine[]>;
}

export const BATCH = 'batch';
export const REF = { batch_id: BATCH, row: 0, repeat: 0 };

export async function temporaryStore(
  t: Pick<TestContext, 'after'>,
  formats: Formats = ['jsonl'],
): Promise<TemporaryStore> {
  const open = (root: string): TrajectoryStore =>
    createFileStore({ root, max_cached_bytes: 1_000_000, formats });
  const root = path.join(await temporaryFolder(t), 'trajectories');
  const journalFile = (row = 0, repeat = 0): string =>
    path.join(root, BATCH, 'journals', `${row}-${repeat}.jsonl`);
  return {
    root,
    store: open(root),
    elsewhere: () => open(root),
    journalFile,
    journalLines: async () => linesOf(await readFile(journalFile(), 'utf8')),
  };
}

export const sampleOf = (content: string, more: Record<string, unknown> = {}): string =>
  JSON.stringify({ message_log: [{ role: 'user', content }], task_name: 'task', ...more });

export const requestOf = (fields: Record<string, unknown> = {}): BatchRequest =>
  BatchRequest.parse({ samples: { path: 'samples.jsonl' }, ...fields });

/** For `assert.rejects`: a fault of this type whose message matches all of these. */
export const faultOf =
  (type: Fault['type'], ...texts: (RegExp | string)[]) =>
  (error: unknown): boolean => {
    if (!(error instanceof Fault) || error.type !== type) return false;
    return texts.every((text) =>
      typeof text === 'string' ? error.message.includes(text) : text.test(error.message),
    );
  };
