import { z } from 'zod';
import { OBJECTS } from '../../model/results/result.js';
import type { GroupFiles } from '../../model/workflow-safe/groups.js';
import { readJson } from '../../platform/json/kept.js';
import type { Bucket } from '../../platform/s3/bucket.js';
import { packing } from '../arrow/packing.js';
import { sequencesOf } from '../export.js';
import type { Kind } from '../part-files.js';
import { bytesOf, openObjects } from './objects.js';

/** Groups that a running batch has handed out: their objects, and what names them, which is put once. */

const Groups = z.strictObject({
  objects: z.strictObject(OBJECTS).pick({ rollouts: true, sequences: true }),
  completed: z.int().nonnegative().optional(),
});
type Groups = z.infer<typeof Groups>;

export async function readGroups(bucket: Bucket, manifest: string): Promise<Groups | null> {
  const text = await bucket.get(manifest);
  return text && Groups.parse(readJson(text.toString()));
}

/** Puts the objects of these lines. Nobody reads them before their manifest is put. */
export async function putGroups(
  lines: AsyncIterable<string>,
  {
    bucket,
    kinds,
    ...place
  }: { bucket: Bucket; kinds: readonly Kind[]; folder: string; object_bytes?: number | undefined },
): Promise<Groups> {
  const rollouts = openObjects(bucket, { kind: 'rollouts', ...place });
  if (!kinds.includes('sequences')) {
    for await (const line of lines) await rollouts.add(bytesOf(line), 1);
    return { objects: { rollouts: await rollouts.end() } };
  }
  const sequences = openObjects(bucket, { kind: 'sequences', ...place });
  const pack = packing((batch, rows) => sequences.add(batch, rows));
  let completed = 0;
  for await (const line of lines) {
    await rollouts.add(bytesOf(line), 1);
    const rows = sequencesOf(line);
    if (rows === null) continue;
    completed += 1;
    await pack.add(rows);
  }
  await pack.flush();
  const objects = { rollouts: await rollouts.end(), sequences: await sequences.end() };
  return { objects, completed };
}

/** What the batch answers. */
export function groupFiles(
  { name }: Bucket,
  { manifest, completed }: Groups & { manifest: string },
): GroupFiles {
  const file = `${name}/${manifest}#rollouts`;
  if (completed === undefined) return { file };
  return { file, sequences: `${name}/${manifest}#sequences`, completed };
}
