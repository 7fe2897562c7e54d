import { realpath, stat } from 'node:fs/promises';
import { hostname } from 'node:os';
import path from 'node:path';
import { z } from 'zod';
import { Fault } from '../../model/faults.js';
import { invalidBatchRequest, preview } from '../../model/problems.js';
import type { Pieces } from '../../platform/lines.js';
import { textsOf } from '../../platform/lines.js';
import type { Bucket } from '../../platform/s3/bucket.js';
import { createBucket, isRefusal, placeOf } from '../../platform/s3/bucket.js';
import { parsedAs } from '../../model/unknown-fields.js';
import type { Body } from '../dependencies.js';

/** What requests may name: files below `inputs_dir`, or objects where that is an address of a bucket. */

/** Below `inputs_dir`: files of samples that clients put, by hash, and their tokens. `samples.py` has the same name. */
const FOLDER = '.samples';

/** Whether a client put this file, so that its lines are the rows that somebody gave it. */
export const isPut = (file: string): boolean => file.startsWith(`${FOLDER}/`);

/** Size limit of one sample, images included. */
const MOST_SAMPLE_BYTES = 64 * 2 ** 20;

export async function rowsBelow(
  inputsDirectory: string,
  name: string,
): Promise<AsyncGenerator<string>> {
  const badPath = badPathBelow(inputsDirectory);
  const place = placeOf(inputsDirectory);
  if (place === null) {
    const file = await locate(name, inputsDirectory);
    return rowsOf(file, { name: preview(name), badPath, faultOf: faultOfFile });
  }
  const key = keyBelow(inputsDirectory, name);
  const bucket = createBucket(place);
  const file = { name: path.posix.basename(key), chunks: closing(bucket, bucket.read(key)) };
  return rowsOf(file, { name: preview(name), badPath, faultOf: faultOfObject });
}

/** `name` is relative to it, or a whole address. */
function keyBelow(inputsDirectory: string, name: string): string {
  const start = `${inputsDirectory}/`;
  const key = name.startsWith(start) ? name.slice(start.length) : name;
  const isBelow = key.split('/').every((part) => !['', '.', '..', 's3:'].includes(part));
  if (isBelow) return key;
  throw badPathBelow(inputsDirectory)(`expected an object below inputs_dir, got ${preview(name)}`);
}

async function* closing<T>(bucket: Bucket, items: AsyncIterable<T>): AsyncGenerator<T> {
  try {
    yield* items;
  } finally {
    bucket.close();
  }
}

/** Must be below `inputs_dir` after symbolic links are resolved, so a request cannot reach other files. */
async function locate(file: string, inputsDirectory: string): Promise<string> {
  const badPath = badPathBelow(inputsDirectory);
  if (placeOf(file) !== null)
    throw badPath(
      `expected a file below inputs_dir, got ${preview(file)}: objects are read where inputs_dir is an address such as s3://bucket/prefix`,
    );
  const root = await realpath(inputsDirectory).catch((error: unknown) => {
    throw badPath(`the worker's inputs_dir cannot be read: ${withoutPath(error)}`);
  });
  const wanted = path.resolve(root, file);
  if (!isInside(wanted, root))
    throw badPath(`expected a file below inputs_dir, got ${preview(file)}`);
  let found: string;
  try {
    found = await realpath(wanted);
  } catch (error) {
    throw badPath(`cannot read ${preview(file)} below inputs_dir: ${withoutPath(error)}`);
  }
  if (!isInside(found, root))
    throw badPath(`expected a file below inputs_dir, got a link out of it: ${preview(file)}`);
  if ((await stat(found)).isFile()) return found;
  throw badPath(`cannot read ${preview(file)} below inputs_dir: it is not a file`);
}

const badPathBelow =
  (inputsDirectory: string) =>
  (what: string): Fault => {
    const place = `inputs_dir of the worker's temporal.yaml: ${inputsDirectory}`;
    return invalidBatchRequest([{ where: 'samples.path', what: `${what} (${place})` }]);
  };

/** The system's message without its path, which a link may lead anywhere. */
function withoutPath(error: unknown): string {
  const { message, code, syscall } = error as NodeJS.ErrnoException;
  if (syscall !== undefined) return message.split(`, ${syscall}`)[0] ?? '';
  return code ?? message;
}

function isInside(file: string, directory: string): boolean {
  const relative = path.relative(directory, file);
  return relative !== '' && relative.split(path.sep)[0] !== '..' && !path.isAbsolute(relative);
}

/** Blank lines at the end of a file are no samples; anywhere else they are reported like any torn line. */
async function* rowsOf(
  file: string | Pieces,
  reading: {
    name: string;
    badPath: (what: string) => Fault;
    faultOf: (error: unknown) => { said: string; passes: boolean };
  },
): AsyncGenerator<string> {
  const { name, badPath, faultOf } = reading;
  let blank = 0;
  try {
    for await (const line of textsOf(file, { most_bytes: MOST_SAMPLE_BYTES })) {
      if (line.trim() === '') blank += 1;
      else {
        for (; blank > 0; blank--) yield '';
        yield line.endsWith('\r') ? line.slice(0, -1) : line;
      }
    }
  } catch (error) {
    const { said, passes } = faultOf(error);
    const message = `cannot read ${name} below inputs_dir: ${said}`;
    if (!passes) throw badPath(message);
    throw new Fault({ type: 'StoreFault', message, at: 'the input file' });
  }
}

/** Permissions and wrong file types need a person; other disk errors may pass. */
function faultOfFile(error: unknown): { said: string; passes: boolean } {
  const { code = '', syscall } = error as NodeJS.ErrnoException;
  const passes = syscall !== undefined && !['EACCES', 'EPERM'].includes(code);
  return { said: withoutPath(error), passes };
}

/** A line that is not UTF-8, or too long, is no error of the bucket's. */
function faultOfObject(error: unknown): { said: string; passes: boolean } {
  const { message } = error as Error;
  return { said: message, passes: message.startsWith('bucket ') && !isRefusal(error) };
}

const AskedInputs = z.strictObject({
  token: z
    .string()
    .regex(/^[0-9a-f]{32}$/, 'expected 32 hexadecimal digits')
    .nullable(),
});

/**
 * Tells a client where samples are read. A client that can write there proves it by a token: a file of a random name,
 * which is read here. So a disk that only has the same path, and a file that only its writer may read, are found out
 * before a large file is written. The worker itself needs no right to write.
 */
export const findInputs: Body<'findInputs'> = async ([input], { deployment }) => {
  const { inputs_dir, sample_bytes } = deployment;
  const { token } = parsedAs(AskedInputs, input);
  const sees = async (own: string): Promise<boolean> => {
    const rows = await rowsBelow(inputs_dir, path.join(FOLDER, `${own}.token`));
    for await (const row of rows) return row === own;
    return false;
  };
  return {
    inputs_dir,
    worker: `${process.pid}@${hostname()}`,
    most_characters: sample_bytes,
    sees: token !== null && (await sees(token).catch(() => false)),
  };
};
