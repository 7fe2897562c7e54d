import { randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import type { FileHandle } from 'node:fs/promises';
import { access, copyFile, open, readFile, rename, rm, truncate } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Part } from '../model/slices.js';
import { makeDirectory, replaceFile, storing, syncDirectory, temporaryName } from './disk.js';
import type { BatchOutputs, PartPosition, PartWriter } from './trajectory-store.js';

/** In the order in which they get their final names: a part with summaries is a closed part. */
const KINDS = ['rollouts', 'failures', 'summaries'] as const;
type Kind = (typeof KINDS)[number];
type PerKind<T> = Record<Kind, T>;

const START: PartPosition['offsets'] = { rollouts: 0, failures: 0, summaries: 0 };

export function createFileOutputs(directory: string): BatchOutputs {
  const files = {
    rollouts: path.join(directory, 'rollouts.jsonl'),
    failures: path.join(directory, 'failures.jsonl'),
    metrics: path.join(directory, 'metrics.json'),
  };
  const partsDirectory = path.join(directory, 'parts');
  const fileOf = (part: Part, kind: Kind): string =>
    path.join(partsDirectory, `${part.first}-${part.last}`, `${kind}.jsonl`);

  return {
    files,
    isClosed: async (part) => {
      try {
        await access(fileOf(part, 'summaries'));
        return true;
      } catch {
        return false;
      }
    },
    openPart: (part, resume) =>
      storing(`closing rows ${part.first} to ${part.last}`, async () => {
        await makeDirectory(path.dirname(fileOf(part, 'rollouts')));
        return await openPartWriter({ fileOf: (kind) => fileOf(part, kind), resume });
      }),
    join: (parts) =>
      storing('joining the parts', async () => {
        for (const kind of ['rollouts', 'failures'] as const) {
          await concatenate(
            parts.map((part) => fileOf(part, kind)),
            files[kind],
          );
        }
        await syncDirectory(directory);
        const texts = await Promise.all(
          parts.map((part) => readFile(fileOf(part, 'summaries'), 'utf8')),
        );
        return texts.flatMap((text) => text.split('\n').filter((line) => line !== ''));
      }),
    putMetrics: (result) =>
      storing('writing metrics.json', async () => {
        await replaceFile(files.metrics, `${JSON.stringify(result, null, 2)}\n`);
        await rm(partsDirectory, { recursive: true, force: true });
      }),
  };
}

async function openPartWriter({
  fileOf,
  resume,
}: {
  fileOf: (kind: Kind) => string;
  resume: PartPosition | null;
}): Promise<PartWriter> {
  const attempt = randomUUID().slice(0, 8);
  const name = (kind: Kind, by: string): string => `${fileOf(kind)}.${by}`;
  let position: PartPosition = { attempt, written: 0, offsets: START };
  if (resume !== null && (await copyPredecessor({ name, resume, attempt }))) {
    position = { ...resume, attempt };
  }
  const handles: PerKind<FileHandle> = {
    rollouts: await open(name('rollouts', attempt), 'a'),
    failures: await open(name('failures', attempt), 'a'),
    summaries: await open(name('summaries', attempt), 'a'),
  };
  const closeAll = async (): Promise<void> => {
    for (const kind of KINDS) await handles[kind].close().catch(() => undefined);
  };
  return {
    get position() {
      return position;
    },
    write: ({ row, summary, valid }) =>
      storing('writing rows', async () => {
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
      storing('closing rows', async () => {
        for (const kind of KINDS) await handles[kind].sync();
        await closeAll();
        for (const kind of KINDS) await rename(name(kind, attempt), fileOf(kind));
        await syncDirectory(path.dirname(fileOf('rollouts')));
      }),
    abandon: closeAll,
  };
}

/** What a predecessor wrote counts up to the offsets that its heartbeat reported. */
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
      await truncate(name(kind, attempt), resume.offsets[kind]);
    }
    return true;
  } catch {
    // The predecessor ran elsewhere or was cleaned up: this attempt starts over, into empty files.
    for (const kind of KINDS) await rm(name(kind, attempt), { force: true });
    return false;
  }
}

async function writeLine(handle: FileHandle, line: string): Promise<number> {
  const bytes = Buffer.from(`${line}\n`);
  await handle.writeFile(bytes);
  return bytes.length;
}

async function concatenate(sources: readonly string[], target: string): Promise<void> {
  const temporary = temporaryName(target);
  for (const [i, source] of sources.entries()) {
    if (i === 0) await copyFile(source, temporary);
    else await pipeline(createReadStream(source), createWriteStream(temporary, { flags: 'a' }));
  }
  const handle = await open(temporary, 'r+');
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
  await rename(temporary, target);
}
