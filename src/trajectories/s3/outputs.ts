import path from 'node:path';
import { z } from 'zod';
import type { Formats } from '../../model/results/arrow/formats.js';
import { OBJECTS } from '../../model/results/result.js';
import { IN_PAYLOADS } from '../../model/workflow-safe/foreign.js';
import type { GroupFiles } from '../../model/workflow-safe/groups.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { indentedJson } from '../../platform/json/indented.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import type { Bucket } from '../../platform/s3/bucket.js';
import { packLines } from '../export.js';
import { namedOutputs } from '../outputs.js';
import type { Kind } from '../part-files.js';
import { kindsOf } from '../part-files.js';
import { partOf, placesOf } from '../places.js';
import type { Outputs, ResultFiles } from '../trajectory-store.js';
import type { Objects, ResultObject } from './objects.js';
import { bytesOf, joined, linesIn, openObjects } from './objects.js';
import { attemptName, findPart, openPartWriter, PART } from './part-writer.js';

/**
 * Results as objects below one folder of a bucket. Nothing there is appended to or renamed: each attempt puts objects of
 * its own, and metrics.json, which is put once and last, names those that count.
 *
 * A batch that is started again gets another epoch, below which its parts are, so what an attempt from before still
 * writes does not count.
 */

const METRICS = 'metrics.json';
const EPOCH = 'epoch.json';
const FIRST = '0';

interface S3Outputs {
  bucket: Bucket;
  formats: Formats;
  object_bytes?: number | undefined;
}

export function createS3Outputs({ bucket, formats, object_bytes }: S3Outputs): Outputs {
  const kinds = kindsOf(formats);
  let reading: Promise<string> | null = null;
  const epoch = (): Promise<string> => (reading ??= readEpoch(bucket));
  /** The parts that this attempt has joined; null: none yet. */
  let whole: Objects | null = null;
  let groups: ResultObject[] = [];
  const folderOf = async (part: RowRange): Promise<string> =>
    partOf(`parts/${await epoch()}`, part);
  const wholeNow = async (): Promise<Objects> => {
    const found = whole ?? ((await readMetrics(bucket))?.['objects'] as Objects | undefined);
    if (found !== undefined) return found;
    throw new Error(`${bucket.name}: expected parts that were joined, got none`);
  };
  return namedOutputs(bucket.name, {
    files: filesIn(bucket, formats),
    isClosed: async (part) => (await findPart(bucket, await folderOf(part))) !== null,
    openPart: async (part, resume) =>
      openPartWriter({ kinds, folder: await folderOf(part), bucket, object_bytes }, resume),
    join: async (parts) => {
      const found: Objects[] = [];
      for (const part of parts) {
        const one = await findPart(bucket, await folderOf(part));
        if (one === null)
          throw new Error(`rows ${part.first} to ${part.last} of ${bucket.name} are not closed`);
        found.push(one);
      }
      const { summaries = [], ...others } = joined(found);
      whole = others;
      const lines: string[] = [];
      for await (const line of linesIn(bucket, summaries)) lines.push(line);
      return lines;
    },
    readRollouts: async function* () {
      yield* linesIn(bucket, (await wholeNow()).rollouts ?? []);
    },
    putGroups: async (places, lines) => {
      const folder = `groups/${await epoch()}`;
      const manifest = `${folder}/${placesOf(places)}.json`;
      const standing = await readGroups(bucket, manifest);
      if (standing !== null) return groupFiles(bucket, { manifest, ...standing });
      const own = `${folder}/${attemptName()}`;
      const put = await putGroups(lines(), { bucket, folder: own, kinds, object_bytes });
      const isOwn = await bucket.putOnce(manifest, JSON.stringify(put));
      const found = isOwn ? put : await readGroups(bucket, manifest);
      if (found === null) throw new Error(`${manifest} was there and is gone`);
      return groupFiles(bucket, { manifest, ...found });
    },
    putGroupTable: async (lines) => {
      const folder = `parts/${await epoch()}/table/${attemptName()}`;
      const table = openObjects(bucket, { folder, kind: 'groups', object_bytes });
      for (const line of lines) await table.add(bytesOf(line), 1);
      groups = await table.end();
    },
    putMetrics: async (result) => {
      const objects = { ...(await wholeNow()), epoch: await epoch(), groups };
      const standing = await putStanding(bucket, { ...result, objects });
      await removeOthers(bucket, standing);
      return withoutObjects(standing) as typeof result;
    },
    readMetrics: async () => {
      const found = await readMetrics(bucket);
      return found && withoutObjects(found);
    },
    /** Only objects written from now on count. */
    reopen: async () => {
      await bucket.remove(METRICS);
      const before = await readEpoch(bucket);
      await bucket.put(EPOCH, JSON.stringify({ epoch: attemptName() }));
      reading = null;
      for (const folder of ['parts', 'groups']) await removeAll(bucket, `${folder}/${before}/`);
    },
    forget: async () => {
      // First: a step that has its metrics counts as written.
      await bucket.remove(METRICS);
      await removeAll(bucket, '');
    },
  });
}

function filesIn({ name }: Bucket, formats: Formats): ResultFiles {
  const metrics = `${name}/${METRICS}`;
  return {
    rollouts: `${metrics}#rollouts`,
    failures: `${metrics}#failures`,
    groups: `${metrics}#groups`,
    metrics,
    ...(formats.includes('arrow') && { sequences: `${metrics}#sequences` }),
  };
}

async function readEpoch(bucket: Bucket): Promise<string> {
  const text = await bucket.get(EPOCH);
  if (text === null) return FIRST;
  const { epoch } = JSON.parse(text.toString()) as { epoch: unknown };
  if (typeof epoch === 'string' && /^[0-9a-f]{8}$/.test(epoch)) return epoch;
  throw new Error(`${bucket.name}/${EPOCH}: expected an epoch, got another text`);
}

type Written = Record<string, unknown>;

async function readMetrics(bucket: Bucket): Promise<Written | null> {
  const text = await bucket.get(METRICS);
  return text && (readJson(text.toString(), IN_PAYLOADS) as Written);
}

const withoutObjects = (result: Written): Written =>
  Object.fromEntries(Object.entries(result).filter(([name]) => name !== 'objects'));

/** The result that stands: this one, or that of an attempt that was earlier. One from before a reopening is removed. */
async function putStanding(bucket: Bucket, result: Written): Promise<Written> {
  for (let tries = 0; tries < 4; tries++) {
    if (await bucket.putOnce(METRICS, `${indentedJson(writeJson(result))}\n`)) return result;
    const standing = await readMetrics(bucket);
    if (standing === null) continue;
    if (epochOf(standing) === epochOf(result)) return standing;
    await bucket.remove(METRICS);
  }
  throw new Error('other attempts write it, too');
}

const epochOf = ({ objects }: Written): unknown =>
  (objects as { epoch?: unknown } | undefined)?.epoch;

/**
 * Removes what attempts that were replaced have left. Lists of closed parts stay with what they name, because an attempt
 * that comes later must find the same.
 */
async function removeOthers(bucket: Bucket, standing: Written): Promise<void> {
  const keys = await bucket.list('parts/');
  const lists = keys
    .filter((key) => key.endsWith(PART))
    .map((key) => findPart(bucket, path.dirname(key)));
  const objects = standing['objects'] as Objects;
  const named = [objects, ...(await Promise.all(lists))].flatMap((one) => keysIn(one ?? {}));
  const kept = new Set(named);
  for (const key of keys) if (!kept.has(key) && !key.endsWith(PART)) await bucket.remove(key);
}

/** The keys of what a list names, beside its epoch. */
const keysIn = (objects: Objects): string[] =>
  Object.values(objects).flatMap((some) =>
    Array.isArray(some) ? some.map(({ key }: ResultObject) => key) : [],
  );

async function removeAll(bucket: Bucket, start: string): Promise<void> {
  for (const key of await bucket.list(start)) await bucket.remove(key);
}

/** Groups that a running batch has handed out: their objects, and what names them, which is put once. */

const Groups = z.strictObject({
  objects: z.strictObject(OBJECTS).pick({ rollouts: true, sequences: true }),
  completed: z.int().nonnegative().optional(),
});
type Groups = z.infer<typeof Groups>;

async function readGroups(bucket: Bucket, manifest: string): Promise<Groups | null> {
  const text = await bucket.get(manifest);
  return text && Groups.parse(JSON.parse(text.toString()));
}

/** Puts the objects of these lines. Nobody reads them before their manifest is put. */
async function putGroups(
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
  const completed = await packLines(lines, {
    put: sequences.add,
    take: (line) => rollouts.add(bytesOf(line), 1),
  });
  const objects = { rollouts: await rollouts.end(), sequences: await sequences.end() };
  return { objects, completed };
}

function groupFiles(
  { name }: Bucket,
  { manifest, completed }: Groups & { manifest: string },
): GroupFiles {
  const file = `${name}/${manifest}#rollouts`;
  if (completed === undefined) return { file };
  return { file, sequences: `${name}/${manifest}#sequences`, completed };
}
