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

const EXTENSIONS = {
  rollouts: 'jsonl',
  failures: 'jsonl',
  summaries: 'jsonl',
  groups: 'jsonl',
  sequences: 'arrow',
} as const;

type ObjectKind = keyof typeof EXTENSIONS;

export interface ObjectsPlace {
  folder: string;
  kind: ObjectKind;
  object_bytes?: number | undefined;
  known?: readonly ResultObject[];
}

/**
 * Pieces of rows as objects of about `object_bytes`, in a folder of this attempt, behind those that are `known`. Each
 * object of sequences is a whole stream, so that any library reads it alone.
 */
export function openObjects(
  bucket: Bucket,
  { folder, kind, object_bytes = OBJECT_BYTES, known = [] }: ObjectsPlace,
) {
  const objects = [...known];
  let kept: { pieces: Buffer[]; rows: number; bytes: number } = { pieces: [], rows: 0, bytes: 0 };
  const flush = async (): Promise<void> => {
    const { pieces, rows } = kept;
    const number = String(objects.length).padStart(8, '0');
    const key = `${folder}/${kind}-${number}.${EXTENSIONS[kind]}`;
    const body = Buffer.concat(kind === 'sequences' ? [HEAD, ...pieces, END] : pieces);
    await bucket.put(key, body);
    objects.push({ key, rows, bytes: body.length, sha256: sha256Of(body) });
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
