import { createHash } from 'node:crypto';
import { readFile, readdir, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import type { Published, WeightFiles } from '../../model/policy/record.js';
import { isOtherOnAnyHost, otherFiles, pathOf } from '../../model/policy/target.js';
import type { BucketSettings } from '../../platform/s3/bucket.js';
import { createBucket, placeOf } from '../../platform/s3/bucket.js';
import { describeError } from '../../platform/errors.js';
import { LATE, within } from '../../platform/waits/abort.js';
import { refused } from './policy-service.js';

/** The files, or why this worker cannot see them: engines read them from file systems of their own. */
export type Look = { files: WeightFiles; why: null } | { files: null; why: string };

/** For a file system that hangs. */
const LOOK_MS = 10_000;
/** Files up to this size are read, until that many bytes are. */
const SMALL = 2 ** 20;
const MOST_READ = 2 ** 26;
const MOST_FILES = 4096;

/** What engines load from a folder, the first kind that it has. Other files may come and go. */
const KINDS = [
  /\.safetensors(?:\.index\.json)?$/,
  /\.bin(?:\.index\.json)?$/,
  /\.gguf$/,
  /\.pth?$/,
];
const NO_WEIGHTS = /^(?:optimizer|scheduler|scaler|rng_state|training_args)/;

export async function lookAt(place: string): Promise<Look> {
  const objects = placeOf(place);
  if (objects === null && !path.isAbsolute(place)) return unseen('is no absolute path');
  const look = (objects === null ? see(place) : seeObjects(objects)).catch((error: unknown) =>
    unseen(`cannot be read (${describeError(error)})`),
  );
  const seen = await within(LOOK_MS, look);
  return seen === LATE ? unseen(`cannot be read within ${LOOK_MS / 1000} s`) : seen;
}

const unseen = (why: string): Look => ({ files: null, why });

async function see(place: string): Promise<Look> {
  const names = (await stat(place)).isDirectory() ? weightsAmong(await readdir(place)) : [''];
  if (names.length === 0)
    return unseen('is a folder without .safetensors, .bin, .gguf or .pt files');
  if (names.length > MOST_FILES) return unseen(`has ${names.length} files of weights`);
  const hash = createHash('sha256');
  let [bytes, read, modified] = [0, 0, 0];
  for (const name of names) {
    const file = path.join(place, name);
    const found = await stat(file);
    if (!found.isFile()) return unseen('is neither a file nor a folder of files');
    hash.update(JSON.stringify([name, found.size]));
    if (found.size <= SMALL && read + found.size <= MOST_READ) {
      hash.update(await readFile(file));
      read += found.size;
    }
    bytes += found.size;
    modified = Math.max(modified, found.mtimeMs);
  }
  const seen = { bytes, whole: read === bytes, sha256: hash.digest('hex'), host: hostname() };
  return { files: { ...seen, modified: new Date(modified).toISOString() }, why: null };
}

/** Engines stream them from there. Names, sizes and ETags say which contents they have. */
async function seeObjects({ bucket: name, prefix: key }: BucketSettings): Promise<Look> {
  const bucket = createBucket({ bucket: name, prefix: '' });
  try {
    const below = (await bucket.look(`${key}/`)).filter(
      (one) => !one.key.slice(key.length + 1).includes('/'),
    );
    const found = new Map(below.map((one) => [one.key.slice(key.length + 1), one]));
    const names = weightsAmong([...found.keys()]);
    if (names.length === 0)
      return unseen('is a folder without .safetensors, .bin, .gguf or .pt objects');
    const hash = createHash('sha256');
    let [bytes, modified] = [0, 0];
    for (const name of names) {
      const one = found.get(name);
      hash.update(JSON.stringify([name, one?.bytes, one?.etag]));
      bytes += one?.bytes ?? 0;
      modified = Math.max(modified, one?.modified.getTime() ?? 0);
    }
    const seen = { bytes, whole: true, sha256: hash.digest('hex'), host: hostname() };
    return { files: { ...seen, modified: new Date(modified).toISOString() }, why: null };
  } finally {
    bucket.close();
  }
}

function weightsAmong(names: readonly string[]): string[] {
  const weights = names.filter((name) => !NO_WEIGHTS.test(name));
  const kind = KINDS.find((one) => weights.some((name) => one.test(name)));
  return weights.filter((name) => kind?.test(name) === true).sort();
}

/** Before a load, nothing else may have taken the place of what was published; nor while it was loaded. */
export async function checkFiles(
  version: number,
  published: Pick<Published, 'files' | 'weights'>,
): Promise<void> {
  const { files: before } = published;
  const path = pathOf(published);
  if (before === null || path === null) return;
  const { files: now } = await lookAt(path);
  if (now !== null && isOtherOnAnyHost(before, now))
    throw refused(otherFiles(path, { version, before, now }));
}
