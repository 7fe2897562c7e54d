import { randomUUID } from 'node:crypto';
import type { Bucket } from '../../platform/s3/bucket.js';
import type { Kind } from '../part-files.js';
import { startOf, writing } from '../part-files.js';
import type { PartPosition, PartWriter } from '../trajectory-store.js';
import { OBJECT_BYTES, Objects, openObjects } from './objects.js';

export interface PartPlace {
  kinds: readonly Kind[];
  folder: string;
  bucket: Bucket;
  object_bytes?: number | undefined;
}

/** The list of a closed part. */
export const PART = 'part.json';

export const attemptName = (): string => randomUUID().slice(0, 8);

/** Its objects, once it is closed. */
export async function findPart(bucket: Bucket, folder: string): Promise<Objects | null> {
  const text = await bucket.get(`${folder}/${PART}`);
  return text && Objects.parse(JSON.parse(text.toString()));
}

/**
 * Rows are buffered and become objects of this attempt, each put whole. After each round a record names all so far: a
 * successor goes on from the one that its predecessor's heartbeat names. The part is closed when its list is put, once.
 */
export async function openPartWriter(
  { kinds, folder, bucket, object_bytes = OBJECT_BYTES }: PartPlace,
  resume: PartPosition | null,
): Promise<PartWriter> {
  const attempt = attemptName();
  const recordOf = (position: PartPosition): string =>
    `${folder}/${position.attempt}/${position.written}.json`;
  const before = resume && (await takenOver(resume, { kinds, bucket, record: recordOf(resume) }));
  let position: PartPosition =
    before === null || resume === null ? startOf(attempt, kinds) : { ...resume, attempt };
  const openFor = (kind: Kind) => {
    const place = { folder: `${folder}/${attempt}`, kind, object_bytes: Infinity };
    return openObjects(bucket, { ...place, known: before?.[kind] ?? [] });
  };
  const open = new Map(kinds.map((kind) => [kind, openFor(kind)]));
  const files = writing(position, {
    kinds,
    put: async (kind, { bytes, rows }) => open.get(kind)?.add(bytes, rows),
  });
  /** Returns all so far. */
  const flush = async (): Promise<Objects> => {
    await files.flush();
    const objects: Objects = {};
    for (const [kind, one] of open) objects[kind] = await one.end();
    ({ position } = files);
    await bucket.put(recordOf(position), JSON.stringify(objects));
    return objects;
  };
  const kept = (): number => {
    const { offsets } = files.reached;
    return kinds.reduce(
      (sum, kind) => sum + (offsets[kind] ?? 0) - (position.offsets[kind] ?? 0),
      0,
    );
  };
  return {
    get position() {
      return position;
    },
    write: async (rollout) => {
      await files.write(rollout);
      if (kept() >= object_bytes) await flush();
    },
    close: async () => {
      // An attempt that comes second has written the same rows.
      await bucket.putOnce(`${folder}/${PART}`, JSON.stringify(await flush()));
    },
    abandon: () => Promise.resolve(),
  };
}

/** Objects that the predecessor's record names; null: it has none, or wrote other kinds, so this attempt starts over. */
async function takenOver(
  resume: PartPosition,
  { kinds, bucket, record }: { kinds: readonly Kind[]; bucket: Bucket; record: string },
): Promise<Objects | null> {
  if (kinds.some((kind) => resume.offsets[kind] === undefined)) return null;
  const text = await bucket.get(record);
  return text && Objects.parse(JSON.parse(text.toString()));
}
