import { createHash } from 'node:crypto';
import { closeSync, openSync, readSync } from 'node:fs';
import { readFile, readdir, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { BatchRequest } from '../../model/batch-request.js';
import type { Fault } from '../../model/faults.js';
import { invalidBatchRequest, preview } from '../../model/problems.js';
import { Sample } from '../../model/sample.js';
import type { StoredRequest } from '../../model/stream/stream-request.js';
import { StreamRequest, playedAs } from '../../model/stream/stream-request.js';
import type { Disk } from '../../platform/files.js';
import { isMissing, syncDirectory } from '../../platform/files.js';
import { groupsFolderOf } from './places.js';

/** A batch's directory: its request and its manifest, put once and never changed. */

const OFFSET_BYTES = 8;

/**
 * Request last: where batch.json stands, the manifest stands too. A batch that exists is left as it is, but for
 * metrics.json, whose presence would mean that it is closed.
 */
export async function createBatch(
  directory: string,
  { request, samples, disk }: { request: Request; samples: readonly string[]; disk: Disk },
): Promise<{ existed: boolean }> {
  const existing = await findWritten(directory);
  if (existing !== null) checkSameRequest(existing, request);
  await disk.makeDirectory(directory);
  await putManifest(directory, { samples, disk });
  const text = `${JSON.stringify(request, null, 2)}\n`;
  if (!(await disk.putOnce(path.join(directory, 'batch.json'), text))) {
    checkSameRequest((await findWritten(directory)) ?? request, request);
  }
  return { existed: existing !== null };
}

/** No longer closed, and a power cut does not close it again. */
export async function reopenBatch(directory: string): Promise<void> {
  await rm(path.join(directory, 'metrics.json'), { force: true });
  await rm(path.join(directory, 'parts'), { recursive: true, force: true });
  await rm(groupsFolderOf(directory), { recursive: true, force: true });
  await syncDirectory(directory);
}

type Request = BatchRequest | StreamRequest;

export async function findRequest(directory: string): Promise<StoredRequest | null> {
  const written = await findWritten(directory);
  return written !== null && 'groups_per_step' in written ? playedAs(written) : written;
}

/** As it was put. */
async function findWritten(directory: string): Promise<Request | null> {
  try {
    const text = await readFile(path.join(directory, 'batch.json'), 'utf8');
    const value = JSON.parse(text) as object;
    return 'groups_per_step' in value ? StreamRequest.parse(value) : BatchRequest.parse(value);
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
  const index = Buffer.alloc((samples.length + 1) * OFFSET_BYTES);
  const same = await disk.putOnce(file, async (handle) => {
    let offset = 0;
    for (const [row, sample] of samples.entries()) {
      const line = Buffer.from(`${sample}\n`);
      await handle.writeFile(line);
      offset += line.length;
      index.writeBigUInt64LE(BigInt(offset), (row + 1) * OFFSET_BYTES);
    }
  });
  if (!same) throw await samplesDiffer(file, samples);
  await disk.putOnce(path.join(directory, 'samples.index'), index);
}

async function samplesDiffer(file: string, samples: readonly string[]): Promise<Fault> {
  const theirs = (await readFile(file, 'utf8')).split('\n').slice(0, -1);
  const row = samples.findIndex((sample, i) => digest(sample) !== digest(theirs[i] ?? ''));
  return invalidBatchRequest([
    {
      where: row === -1 ? 'samples' : `samples row ${row}`,
      what: `differs from the batch of this id (${theirs.length} samples there, ${samples.length} here); use another batch id`,
    },
  ]);
}

const digest = (text: string): string => createHash('sha256').update(text).digest('hex');

/** A batch id names one request for ever. */
function checkSameRequest(theirs: Request, ours: Request): void {
  const difference = firstDifference(theirs, ours);
  if (difference === null) return;
  const { where, before, now } = difference;
  throw invalidBatchRequest([
    {
      where,
      what: `the batch of this id has ${preview(before)}, got ${preview(now)}; use another batch id`,
    },
  ]);
}

/** Depth first, in the order of the schema's fields. */
function firstDifference(
  before: unknown,
  now: unknown,
): { where: string; before: unknown; now: unknown } | null {
  if (isObject(before) && isObject(now) && Array.isArray(before) === Array.isArray(now)) {
    for (const key of new Set([...Object.keys(before), ...Object.keys(now)])) {
      const inner = firstDifference(before[key], now[key]);
      if (inner !== null)
        return { ...inner, where: inner.where === '' ? key : `${key}.${inner.where}` };
    }
    return null;
  }
  return JSON.stringify(before) === JSON.stringify(now) ? null : { where: '', before, now };
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null;

export async function sampleCount(directory: string): Promise<number> {
  return (await stat(path.join(directory, 'samples.index'))).size / OFFSET_BYTES - 1;
}

/** None where no rollout has started. */
export async function listJournals(directory: string): Promise<{ row: number; repeat: number }[]> {
  const names = await readdir(path.join(directory, 'journals')).catch((error: unknown) => {
    if (isMissing(error)) return [];
    throw error;
  });
  return names.flatMap((name) => {
    const [, row, repeat] = /^(\d+)-(\d+)\.jsonl$/.exec(name) ?? [];
    return row === undefined ? [] : [{ row: Number(row), repeat: Number(repeat) }];
  });
}

export const readSample = (directory: string, row: number): Sample =>
  Sample.parse(JSON.parse(readSampleText(directory, row)));

/** One row, by its byte offset: the manifest is never read whole. */
export function readSampleText(directory: string, row: number): string {
  const [start, end] = readOffsets(path.join(directory, 'samples.index'), row);
  const line = readBytes(path.join(directory, 'samples.jsonl'), { start, end });
  return line.toString('utf8').trimEnd();
}

function readOffsets(file: string, row: number): [number, number] {
  const bytes = readBytes(file, { start: row * OFFSET_BYTES, end: (row + 2) * OFFSET_BYTES });
  return [Number(bytes.readBigUInt64LE(0)), Number(bytes.readBigUInt64LE(OFFSET_BYTES))];
}

/** Synchronous, as journals are read. */
function readBytes(file: string, { start, end }: { start: number; end: number }): Buffer {
  const fd = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(end - start);
    const read = readSync(fd, bytes, 0, bytes.length, start);
    if (read === bytes.length) return bytes;
    throw new Error(`${path.basename(file)} ends at byte ${start + read}, expected ${end}`);
  } finally {
    closeSync(fd);
  }
}
