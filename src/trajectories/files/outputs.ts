import { randomUUID } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { copyFile, open, readdir, rename, rm, stat, truncate } from 'node:fs/promises';
import path from 'node:path';
import { writeJson } from '../../platform/json/kept.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { Fault, THE_STORE } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { textsOf } from '../../platform/lines.js';
import { exists, syncDirectory } from '../../platform/files.js';
import { openToRead, readWhole } from '../../platform/regular-file.js';
import type { Disk } from '../../platform/files.js';
import { storing } from '../storing.js';
import { groupsOf, partOf } from '../places.js';
import type { BatchOutputs, PartPosition, PartWriter } from '../trajectory-store.js';

/** In the order in which they get their final names. A part that has all of them is closed. */
const KINDS = ['rollouts', 'failures', 'summaries'] as const;
type Kind = (typeof KINDS)[number];
type PerKind<T> = Record<Kind, T>;

const START: PartPosition['offsets'] = { rollouts: 0, failures: 0, summaries: 0 };

export function createFileOutputs(directory: string, disk: Disk): BatchOutputs {
  const batch = path.basename(directory);
  const files = {
    rollouts: path.join(directory, 'rollouts.jsonl'),
    failures: path.join(directory, 'failures.jsonl'),
    groups: path.join(directory, 'groups.jsonl'),
    metrics: path.join(directory, 'metrics.json'),
  };
  const partsDirectory = path.join(directory, 'parts');
  const nameOf = ({ first, last }: RowRange): string => `rows ${first} to ${last} of ${batch}`;
  const fileOf = (part: RowRange, kind: Kind): string =>
    path.join(partOf(partsDirectory, part), `${kind}.jsonl`);

  return {
    files,
    isClosed: async (part) => {
      const files = KINDS.map((kind) => fileOf(part, kind));
      return (await Promise.all(files.map(exists))).every(Boolean);
    },
    openPart: (part, resume) =>
      storing(`closing ${nameOf(part)}`, async () => {
        await disk.makeDirectory(path.dirname(fileOf(part, 'rollouts')));
        return await openPartWriter({
          what: nameOf(part),
          fileOf: (kind) => fileOf(part, kind),
          resume,
          disk,
        });
      }),
    join: (parts) =>
      storing(`joining the parts of ${batch}`, async () => {
        for (const kind of ['rollouts', 'failures'] as const) {
          const sources = parts.map((part) => fileOf(part, kind));
          await disk.replaceFile(files[kind], (handle) => concatenate(sources, handle));
        }
        return await summariesIn(parts.map((part) => fileOf(part, 'summaries')));
      }),
    readRollouts: () => rowsOf(files.rollouts),
    putGroups: ({ from, to }, lines) =>
      storing(`groups ${from} to ${to} of ${batch}`, async () => {
        const file = groupsOf(directory, { from, to });
        if (await exists(file)) return file;
        await disk.makeDirectory(path.dirname(file));
        await disk.putOnce(file, (handle) => writeLines(handle, lines()));
        return file;
      }),
    putGroupTable: (lines) =>
      storing(`writing groups.jsonl of ${batch}`, () =>
        disk.replaceFile(files.groups, (handle) => writeLines(handle, lines)),
      ),
    putMetrics: (result) =>
      storing(`writing metrics.json of ${batch}`, async () => {
        await disk.replaceFile(files.metrics, `${writeJson(result, 2)}\n`);
        await rm(partsDirectory, { recursive: true, force: true });
      }),
  };
}

async function openPartWriter({
  what,
  fileOf,
  resume,
  disk: { file_mode },
}: {
  what: string;
  fileOf: (kind: Kind) => string;
  resume: PartPosition | null;
  disk: Disk;
}): Promise<PartWriter> {
  const attempt = randomUUID().slice(0, 8);
  const name = (kind: Kind, by: string): string => `${fileOf(kind)}.${by}`;
  let position: PartPosition = { attempt, written: 0, offsets: START };
  if (resume !== null && (await copyPredecessor({ name, resume, attempt }))) {
    position = { ...resume, attempt };
  }
  await removeOthers(path.dirname(fileOf('rollouts')), [attempt, resume?.attempt ?? attempt]);
  const handles: PerKind<FileHandle> = {
    rollouts: await open(name('rollouts', attempt), 'a', file_mode),
    failures: await open(name('failures', attempt), 'a', file_mode),
    summaries: await open(name('summaries', attempt), 'a', file_mode),
  };
  const closeAll = async (): Promise<void> => {
    for (const kind of KINDS) await handles[kind].close().catch(() => undefined);
  };
  return {
    get position() {
      return position;
    },
    write: ({ row, summary, valid }) =>
      storing(`writing ${what}`, async () => {
        const kind = valid ? 'rollouts' : 'failures';
        const rowBytes = await writeLine(handles[kind], row);
        const summaryBytes = await writeLine(handles.summaries, summary);
        const { offsets } = position;
        position = {
          attempt,
          written: position.written + 1,
          offsets: {
            ...offsets,
            [kind]: offsets[kind] + rowBytes,
            summaries: offsets.summaries + summaryBytes,
          },
        };
      }),
    close: () =>
      storing(`closing ${what}`, async () => {
        for (const kind of KINDS) await handles[kind].sync();
        await closeAll();
        for (const kind of KINDS) await rename(name(kind, attempt), fileOf(kind));
        await syncDirectory(path.dirname(fileOf('rollouts')));
      }),
    abandon: closeAll,
  };
}

/** A predecessor's output counts up to the offsets that its heartbeat reported. */
async function copyPredecessor({
  name,
  resume,
  attempt,
}: {
  name: (kind: Kind, by: string) => string;
  resume: PartPosition;
  attempt: string;
}): Promise<boolean> {
  try {
    for (const kind of KINDS) {
      await copyFile(name(kind, resume.attempt), name(kind, attempt));
      const { size } = await stat(name(kind, attempt));
      // After a power cut the file may be shorter than the heartbeat said.
      if (size < resume.offsets[kind]) throw new Error('the predecessor lost what it had written');
      await truncate(name(kind, attempt), resume.offsets[kind]);
    }
    return true;
  } catch {
    // The predecessor's files are gone, renamed or too short: this attempt starts over with empty files.
    for (const kind of KINDS) await rm(name(kind, attempt), { force: true });
    return false;
  }
}

/** Removes files of attempts before the predecessor: repeated failures of a closing pass must not fill the disk. */
async function removeOthers(directory: string, attempts: readonly string[]): Promise<void> {
  for (const name of await readdir(directory)) {
    const [, attempt] = /\.jsonl\.(.+)$/.exec(name) ?? [];
    if (attempt !== undefined && !attempts.includes(attempt))
      await rm(path.join(directory, name), { force: true });
  }
}

async function writeLines(
  handle: FileHandle,
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  for await (const line of lines) await writeLine(handle, line);
}

async function writeLine(handle: FileHandle, line: string): Promise<number> {
  const bytes = Buffer.from(`${line}\n`);
  await handle.writeFile(bytes);
  return bytes.length;
}

async function summariesIn(files: readonly string[]): Promise<string[]> {
  const texts = await Promise.all(files.map(readWhole));
  return texts.flatMap((text) =>
    text
      .toString()
      .split('\n')
      .filter((line) => line !== ''),
  );
}

async function concatenate(sources: readonly string[], target: FileHandle): Promise<void> {
  for (const source of sources) {
    const stream = (await openToRead(source)).createReadStream();
    for await (const bytes of stream as AsyncIterable<Buffer>) {
      await target.writeFile(bytes);
    }
  }
}

async function* rowsOf(file: string): AsyncGenerator<string> {
  try {
    yield* textsOf(file);
  } catch (cause) {
    const message = `reading ${path.basename(file)}: ${describeError(cause)}`;
    throw new Fault({ type: 'StoreFault', message, at: THE_STORE, cause });
  }
}
