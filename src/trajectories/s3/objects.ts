import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { OBJECTS, ResultObjects } from '../../model/results/result.js';
import type { Bucket } from '../../platform/s3/bucket.js';
import { sha256Of } from '../../platform/s3/bucket.js';
import { END, HEAD } from '../arrow/batches.js';

/** Results on S3 are objects that nobody changes; which of them count says an object that is put once. */

export type ResultObject = z.infer<typeof ResultObjects>[number];

/** The objects of a part, or of a whole batch. */
export const Objects = z.strictObject({ ...OBJECTS, summaries: ResultObjects }).partial();
export type Objects = z.infer<typeof Objects>;

const KINDS = Objects.keyof().options;

export const joined = (all: readonly Objects[]): Objects =>
  Object.fromEntries(KINDS.map((kind) => [kind, all.flatMap((one) => one[kind] ?? [])]));

/** Its content, checked against what its manifest says. */
async function contentOf(bucket: Bucket, { key, bytes, sha256 }: ResultObject): Promise<Buffer> {
  const body = await bucket.get(key);
  if (body === null) throw new Error(`${bucket.name}/${key} is missing`);
  if (body.length === bytes && sha256Of(body) === sha256) return body;
  throw new Error(
    `${bucket.name}/${key}: expected ${bytes} bytes with SHA-256 ${sha256} (its manifest), got ${body.length} others`,
  );
}

/** The lines of such objects, in order. */
export async function* linesIn(
  bucket: Bucket,
  objects: readonly ResultObject[],
): AsyncGenerator<string> {
  for (const one of objects)
    for (const line of (await contentOf(bucket, one)).toString().split('\n'))
      if (line !== '') yield line;
}

/** An object has about this much, and one row at least. */
export const OBJECT_BYTES = 8 * 2 ** 20;

export const EXTENSIONS = {
  rollouts: 'jsonl',
  failures: 'jsonl',
  summaries: 'jsonl',
  groups: 'jsonl',
  sequences: 'arrow',
} as const;

export type ObjectKind = keyof typeof EXTENSIONS;

export interface RowsToPut {
  kind: ObjectKind;
  key: string;
  pieces: readonly Buffer[];
  rows: number;
}

/** Each object of sequences is a whole stream, so that any library reads it alone. */
export async function putRows(
  bucket: Bucket,
  { kind, key, pieces, rows }: RowsToPut,
): Promise<ResultObject> {
  const body = Buffer.concat(kind === 'sequences' ? [HEAD, ...pieces, END] : pieces);
  await bucket.put(key, body);
  return { key, rows, bytes: body.length, sha256: sha256Of(body) };
}

export interface ObjectsPlace {
  folder: string;
  kind: ObjectKind;
  /** Default: `OBJECT_BYTES`. */
  object_bytes?: number | undefined;
}

/** Pieces of rows as objects of about this size, below a folder of this attempt. */
export function openObjects(
  bucket: Bucket,
  { folder, kind, object_bytes = OBJECT_BYTES }: ObjectsPlace,
) {
  const objects: ResultObject[] = [];
  const writer = randomUUID().slice(0, 8);
  let kept: { pieces: Buffer[]; rows: number; bytes: number } = { pieces: [], rows: 0, bytes: 0 };
  const flush = async (): Promise<void> => {
    const { pieces, rows } = kept;
    const number = String(objects.length).padStart(8, '0');
    const key = `${folder}/${writer}/${kind}-${number}.${EXTENSIONS[kind]}`;
    objects.push(await putRows(bucket, { kind, key, pieces, rows }));
    kept = { pieces: [], rows: 0, bytes: 0 };
  };
  return {
    add: async (piece: Buffer, rows: number): Promise<void> => {
      kept.pieces.push(piece);
      kept.rows += rows;
      kept.bytes += piece.length;
      if (kept.bytes >= object_bytes) await flush();
    },
    end: async (): Promise<ResultObject[]> => {
      if (kept.pieces.length > 0) await flush();
      return objects;
    },
  };
}

export const bytesOf = (line: string): Buffer => Buffer.from(`${line}\n`);
