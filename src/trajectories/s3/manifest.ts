import { z } from 'zod';
import type { Bucket } from '../../platform/s3/bucket.js';
import { sha256Of } from '../../platform/s3/bucket.js';
import { OBJECTS, ResultObjects } from '../../model/results/result.js';

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
