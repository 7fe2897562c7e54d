import { randomUUID } from 'node:crypto';
import path from 'node:path';
import type { Formats } from '../model/results/arrow/formats.js';
import type { Readers } from '../platform/files.js';
import { createDisk } from '../platform/files.js';
import type { BucketSettings } from '../platform/s3/bucket.js';
import { createBucket } from '../platform/s3/bucket.js';
import { reopenBatch } from './files/batch.js';
import { createFileFacts } from './files/facts.js';
import { createFileOutputs } from './files/outputs.js';
import { createStepOutputs } from './files/steps.js';
import { directoryOf, factOf, stepOf } from './places.js';
import { createS3Outputs, reopenOutputs } from './s3/outputs.js';
import type { BatchOutputs, Facts, StepOutputs } from './trajectory-store.js';

/** Where results are, beside a store whose journals are elsewhere. */
export type OutputSettings = { formats?: Formats } & (
  { kind?: 'file'; root: string; readers?: Readers } | ({ kind: 's3' } & BucketSettings)
);

export interface OutputsPlace {
  reopen: (batchId: string) => Promise<void>;
  outputs: (batchId: string) => BatchOutputs;
  stepOutputs: (place: { stream_id: string; step: number }) => StepOutputs;
  /** Its own facts: its id. */
  readonly facts: Pick<Facts, 'find' | 'put'>;
  close: () => void;
}

export const openOutputs = ({ formats = ['jsonl'], ...settings }: OutputSettings): OutputsPlace =>
  settings.kind === 's3' ? inBucket(settings, formats) : inFolder(settings, formats);

function inFolder(
  { root, readers = 'owner' }: { root: string; readers?: Readers },
  formats: Formats,
): OutputsPlace {
  const disk = createDisk(readers);
  return {
    reopen: async (batchId) => {
      const directory = directoryOf(root, batchId);
      await disk.makeDirectory(directory);
      await reopenBatch(directory);
    },
    outputs: (batchId) => createFileOutputs(directoryOf(root, batchId), { disk, formats }),
    stepOutputs: (place) => createStepOutputs(stepOf(root, place), { disk, formats }),
    facts: createFileFacts(root, disk),
    close: () => undefined,
  };
}

function inBucket(settings: BucketSettings, formats: Formats): OutputsPlace {
  const bucket = createBucket(settings);
  // The same names as on a disk, below the prefix.
  const below = (place: string): string => path.posix.relative(ROOT, place);
  const folder = (batchId: string): string => below(directoryOf(ROOT, batchId));
  return {
    reopen: (batchId) => reopenOutputs(bucket.below(folder(batchId))),
    outputs: (batchId) => createS3Outputs({ bucket: bucket.below(folder(batchId)), formats }),
    stepOutputs: (place) =>
      createS3Outputs({ bucket: bucket.below(below(stepOf(ROOT, place))), formats }),
    facts: {
      find: async (series, n) =>
        (await bucket.get(below(factOf(ROOT, { series, n }))))?.toString() ?? null,
      put: ({ series, n, text }) => bucket.putOnce(below(factOf(ROOT, { series, n })), text),
    },
    close: bucket.close,
  };
}

/** No folder of a disk: names are made below it, and nothing is looked for there. */
const ROOT = '/dev/null/results';

/** Puts a small object twice, and removes it. Throws what is in the way, such as a store that takes both. */
export async function tryBucket(settings: OutputSettings): Promise<void> {
  if (settings.kind !== 's3') return;
  const bucket = createBucket(settings);
  const key = `_check/${randomUUID()}`;
  try {
    await bucket.putOnce(key, 'first');
    const isSecond = await bucket.putOnce(key, 'second');
    const text = (await bucket.get(key))?.toString();
    const keys = await bucket.list('_check/');
    await bucket.remove(key);
    if (isSecond || text !== 'first')
      throw new Error(
        'expected that an object is put once, got two that were taken: it ignores If-None-Match, so two attempts could mix their results; use a store that has conditional writes',
      );
    if (!keys.includes(key)) throw new Error('expected the new object in the list, got none');
  } finally {
    bucket.close();
  }
}
