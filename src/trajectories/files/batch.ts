import { closeSync, readSync, statSync } from 'node:fs';
import { readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { parseSample, type Sample } from '../../model/sample.js';
import { indentedJson } from '../../platform/json/indented.js';
import { writeJson } from '../../platform/json/kept.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import type { Disk } from '../../platform/files.js';
import { isMissing, syncDirectory } from '../../platform/files.js';
import { openFile, readWhole } from '../../platform/regular-file.js';
import { groupsFolderOf, idOf } from '../places.js';
import type { FoundRequest } from '../request-reader.js';
import type { WrittenRequest } from '../same-batch.js';
import type { StoredBatch } from '../trajectory-store.js';
import {
  areSameSamples,
  checkSameRequest,
  otherSamples,
  parseRequest,
  storedRequest,
} from '../same-batch.js';

/** A batch's directory: its request and its manifest, put once and never changed. */

const OFFSET_BYTES = 8;

/**
 * The request is written last: where batch.json exists, the manifest exists, too. An existing batch is left as it is,
 * except for metrics.json, which would mean that it is closed.
 */
export async function createBatch(
  directory: string,
  { request, samples, disk }: { request: WrittenRequest; samples: readonly string[]; disk: Disk },
): Promise<{ existed: boolean }> {
  const existing = await findWritten(directory);
  if (existing !== null) checkSameRequest(existing, request);
  await disk.makeDirectory(directory);
  await putManifest(directory, { samples, disk });
  const text = `${indentedJson(writeJson(request))}\n`;
  if (!(await disk.putOnce(path.join(directory, 'batch.json'), text))) {
    checkSameRequest((await findWritten(directory)) ?? request, request);
  }
  return { existed: existing !== null };
}

/** The batch is no longer closed, even after a power cut. */
export async function reopenBatch(directory: string): Promise<void> {
  await rm(path.join(directory, 'metrics.json'), { force: true });
  await rm(path.join(directory, 'parts'), { recursive: true, force: true });
  await rm(groupsFolderOf(directory), { recursive: true, force: true });
  await syncDirectory(directory);
}

export async function findRequest(directory: string): Promise<StoredRequest | null> {
  const written = await findWritten(directory);
  return written && storedRequest(written);
}

/** Folders with a request: a batch that is still being created is none yet. */
export async function listBatches(root: string): Promise<StoredBatch[]> {
  const batches: StoredBatch[] = [];
  for (const name of await namesIn(root)) {
    // What else is there is none of the store's: a file, a folder that only others may read.
    const written = await stat(path.join(root, name, 'batch.json')).catch(() => null);
    if (written !== null) batches.push({ batch_id: idOf(name), created_ms: written.mtimeMs });
  }
  return batches;
}

/** None where there is no folder. */
const namesIn = (folder: string): Promise<string[]> =>
  readdir(folder).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });

async function findWritten(directory: string): Promise<WrittenRequest | null> {
  try {
    return parseRequest((await readWhole(path.join(directory, 'batch.json'))).toString());
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

/** Without reading it. */
export function lookForRequest(directory: string): FoundRequest | null {
  try {
    const { ino, size, mtimeMs } = statSync(path.join(directory, 'batch.json'));
    return { identity: `${ino} ${size} ${mtimeMs}`, size };
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function putManifest(
  directory: string,
  { samples, disk }: { samples: readonly string[]; disk: Disk },
): Promise<void> {
  const file = path.join(directory, 'samples.jsonl');
  const same = await disk.putOnce(file, async (handle) => {
    for (const sample of samples) await handle.writeFile(`${sample}\n`);
  });
  const stored = same ? samples : await storedSamples(file, samples);
  await disk.putOnce(path.join(directory, 'samples.index'), indexOf(stored));
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

async function storedSamples(file: string, samples: readonly string[]): Promise<string[]> {
  const theirs = (await readWhole(file)).toString().split('\n').slice(0, -1);
  if (areSameSamples(theirs, samples)) return theirs;
  throw otherSamples(theirs, samples);
}

export async function sampleCount(directory: string): Promise<number> {
  return (await stat(path.join(directory, 'samples.index'))).size / OFFSET_BYTES - 1;
}

/** Empty if no rollout has started. */
export async function listJournals(directory: string): Promise<{ row: number; repeat: number }[]> {
  const names = await namesIn(path.join(directory, 'journals'));
  return names.flatMap((name) => {
    const [, row, repeat] = /^(\d+)-(\d+)\.jsonl$/.exec(name) ?? [];
    return row === undefined ? [] : [{ row: Number(row), repeat: Number(repeat) }];
  });
}

export const readSample = (directory: string, row: number): Sample =>
  parseSample(readSampleText(directory, row));

/** One row by its byte offset. The manifest is never read as a whole. */
export function readSampleText(directory: string, row: number): string {
  const [start, end] = readOffsets(path.join(directory, 'samples.index'), row);
  const line = readBytes(path.join(directory, 'samples.jsonl'), { start, end });
  return line.toString('utf8').trimEnd();
}

function readOffsets(file: string, row: number): [number, number] {
  const bytes = readBytes(file, { start: row * OFFSET_BYTES, end: (row + 2) * OFFSET_BYTES });
  return [Number(bytes.readBigUInt64LE(0)), Number(bytes.readBigUInt64LE(OFFSET_BYTES))];
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
