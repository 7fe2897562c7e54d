import { randomUUID } from 'node:crypto';
import type { Formats } from '../model/results/arrow/formats.js';
import type { Readers } from '../platform/files.js';
import { createDisk } from '../platform/files.js';
import type { BucketSettings } from '../platform/s3/bucket.js';
import { createBucket } from '../platform/s3/bucket.js';
import { createFileFacts } from './files/facts.js';
import { createFileOutputs } from './files/outputs.js';
import { directoryOf, factOf, stepOf } from './places.js';
import { createS3Outputs } from './s3/outputs.js';
import type { Facts, Outputs } from './trajectory-store.js';

/** Where results are, beside a store whose journals are elsewhere. */
export type OutputSettings = { formats?: Formats } & (
  { kind?: 'file'; root: string; readers?: Readers } | ({ kind: 's3' } & BucketSettings)
);

export interface OutputsPlace {
  batch: (batchId: string) => Outputs;
  step: (place: { stream_id: string; step: number }) => Outputs;
  /** Its own facts: its id. */
  readonly facts: Pick<Facts, 'find' | 'put'>;
  close: () => void;
}

export function openOutputs({ formats = ['jsonl'], ...settings }: OutputSettings): OutputsPlace {
  if (settings.kind === 's3') return inBucket(settings, formats);
  const { root, readers = 'owner' } = settings;
  const disk = createDisk(readers);
  return {
    batch: (batchId) => createFileOutputs(directoryOf(root, batchId), { disk, formats }),
    step: (place) => createFileOutputs(stepOf(root, place), { disk, formats }),
    facts: createFileFacts(root, disk),
    close: () => undefined,
  };
}

/** The same names as on a disk, below the prefix. */
function inBucket(settings: BucketSettings, formats: Formats): OutputsPlace {
  const bucket = createBucket(settings);
  const below = (folder: string): Outputs =>
    createS3Outputs({ bucket: bucket.below(folder), formats });
  return {
    batch: (batchId) => below(directoryOf('', batchId)),
    step: (place) => below(stepOf('', place)),
    facts: {
      find: async (series, n) => (await bucket.get(factOf('', { series, n })))?.toString() ?? null,
      put: ({ series, n, text }) => bucket.putOnce(factOf('', { series, n }), text),
    },
    close: bucket.close,
  };
}

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
        'expected the second put of an object to be refused, got it accepted. The store ignores If-None-Match, so attempts could mix their results: use a store with conditional writes',
      );
    if (!keys.includes(key)) throw new Error('expected the new object in the list, got none');
  } finally {
    bucket.close();
  }
}
