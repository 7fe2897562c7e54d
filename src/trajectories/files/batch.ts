import { closeSync, readSync, statSync } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../platform/files.js';
import { ifThere } from '../../platform/files.js';
import { indentedJson } from '../../platform/json/indented.js';
import { writeJson } from '../../platform/json/kept.js';
import { openFile, readWhole } from '../../platform/regular-file.js';
import { directoryOf, idOf } from '../places.js';
import type { WrittenRequest } from '../same-batch.js';
import { checkSameRequest, checkSameSamples, parseRequest, storedRequest } from '../same-batch.js';
import type { Batches } from '../store.js';
import type { StoredBatch } from '../trajectory-store.js';

const OFFSET_BYTES = 8;

/** A batch's directory: its request and its manifest, put once and never changed. */
export function createBatchFiles({ root, disk }: { root: string; disk: Disk }): Batches {
  const fileIn = (batchId: string, name: string): string =>
    path.join(directoryOf(root, batchId), name);
  const written = (batchId: string): Promise<WrittenRequest | null> =>
    ifThere(async () => parseRequest((await readWhole(fileIn(batchId, 'batch.json'))).toString()));
  return {
    /** The request is written last: where batch.json exists, the manifest exists, too. */
    createBatch: async ({ batch_id, request, samples }) => {
      const existing = await written(batch_id);
      if (existing !== null) checkSameRequest(existing, request);
      const directory = directoryOf(root, batch_id);
      await disk.makeDirectory(directory);
      await putManifest(directory, { samples, disk });
      const text = `${indentedJson(writeJson(request))}\n`;
      if (!(await disk.putOnce(fileIn(batch_id, 'batch.json'), text)))
        checkSameRequest((await written(batch_id)) ?? request, request);
      return { existed: existing !== null };
    },
    /** Folders with a request: a batch that is still being created is none yet. */
    listBatches: async () => {
      const batches: StoredBatch[] = [];
      for (const name of (await ifThere(() => readdir(root))) ?? []) {
        // Other entries are not the store's: a file, a folder that this user may not read.
        const file = await stat(path.join(root, name, 'batch.json')).catch(() => null);
        if (file !== null) batches.push({ batch_id: idOf(name), created_ms: file.mtimeMs });
      }
      return batches;
    },
    look: (batchId) => {
      const found = statSync(fileIn(batchId, 'batch.json'), { throwIfNoEntry: false });
      if (found === undefined) return null;
      const { ino, size, mtimeMs } = found;
      return { identity: `${ino} ${size} ${mtimeMs}`, size };
    },
    read: async (batchId) => {
      const request = await written(batchId);
      return request && storedRequest(request);
    },
    readSample: (batchId, row) => readSample(directoryOf(root, batchId), row),
    sampleCount: async (batchId) =>
      (await stat(fileIn(batchId, 'samples.index'))).size / OFFSET_BYTES - 1,
  };
}

async function putManifest(
  directory: string,
  { samples, disk }: { samples: readonly string[]; disk: Disk },
): Promise<void> {
  const file = path.join(directory, 'samples.jsonl');
  const isSame = await disk.putOnce(file, async (handle) => {
    for (const sample of samples) await handle.writeFile(`${sample}\n`);
  });
  if (!isSame)
    checkSameSamples((await readWhole(file)).toString().split('\n').slice(0, -1), samples);
  await disk.putOnce(path.join(directory, 'samples.index'), indexOf(samples));
}

/** Where each line ends. */
function indexOf(samples: readonly string[]): Buffer {
  const index = Buffer.alloc((samples.length + 1) * OFFSET_BYTES);
  let offset = 0;
  for (const [row, sample] of samples.entries()) {
    offset += Buffer.byteLength(sample) + 1;
    index.writeBigUInt64LE(BigInt(offset), (row + 1) * OFFSET_BYTES);
  }
  return index;
}

/** One row by its byte offset. The manifest is never read as a whole. */
function readSample(directory: string, row: number): string {
  const offsets = readBytes(path.join(directory, 'samples.index'), {
    start: row * OFFSET_BYTES,
    end: (row + 2) * OFFSET_BYTES,
  });
  const start = Number(offsets.readBigUInt64LE(0));
  const end = Number(offsets.readBigUInt64LE(OFFSET_BYTES));
  const line = readBytes(path.join(directory, 'samples.jsonl'), { start, end });
  return line.toString('utf8').trimEnd();
}

/** Synchronous, as for journals. */
function readBytes(file: string, { start, end }: { start: number; end: number }): Buffer {
  const fd = openFile(file);
  try {
    const bytes = Buffer.alloc(end - start);
    const read = readSync(fd, bytes, 0, bytes.length, start);
    if (read === bytes.length) return bytes;
    throw new Error(`${path.basename(file)} ends at byte ${start + read}, expected ${end}`);
  } finally {
    closeSync(fd);
  }
}
