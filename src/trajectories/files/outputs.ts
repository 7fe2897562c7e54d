import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { writeJson } from '../../platform/json/kept.js';
import type { Formats } from '../../model/results/arrow/formats.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { Fault, THE_STORE } from '../../model/faults.js';
import { describeError } from '../../platform/errors.js';
import { textsOf } from '../../platform/lines.js';
import { exists } from '../../platform/files.js';
import { openToRead, readWhole } from '../../platform/regular-file.js';
import type { Disk } from '../../platform/files.js';
import { storing } from '../storing.js';
import { groupsOf, partOf } from '../places.js';
import { END, HEAD } from '../arrow/batches.js';
import type { BatchOutputs } from '../trajectory-store.js';
import type { Kind } from './part-writer.js';
import { openPartWriter } from './part-writer.js';

/** Of a closed part, in the order in which they get their final names. */
const KINDS: readonly Kind[] = ['rollouts', 'failures', 'summaries'];

/** Parts by another release, whose sequences have other columns, are closed again. */
const BATCHES = `sequences-${createHash('sha256').update(HEAD).digest('hex').slice(0, 8)}.batches`;

/** `formats`: of the valid rollouts. */
export function createFileOutputs(
  directory: string,
  { disk, formats }: { disk: Disk; formats: Formats },
): BatchOutputs {
  const kinds: readonly Kind[] = formats.includes('arrow') ? [...KINDS, 'sequences'] : KINDS;
  const batch = path.basename(directory);
  const files = {
    rollouts: path.join(directory, 'rollouts.jsonl'),
    failures: path.join(directory, 'failures.jsonl'),
    groups: path.join(directory, 'groups.jsonl'),
    metrics: path.join(directory, 'metrics.json'),
    ...(kinds.includes('sequences') && { sequences: path.join(directory, 'rollouts.arrow') }),
  };
  const partsDirectory = path.join(directory, 'parts');
  const nameOf = ({ first, last }: RowRange): string => `rows ${first} to ${last} of ${batch}`;
  const fileOf = (part: RowRange, kind: Kind): string =>
    path.join(partOf(partsDirectory, part), kind === 'sequences' ? BATCHES : `${kind}.jsonl`);

  return {
    files,
    isClosed: async (part) => {
      const files = kinds.map((kind) => fileOf(part, kind));
      return (await Promise.all(files.map(exists))).every(Boolean);
    },
    openPart: (part, resume) =>
      storing(`closing ${nameOf(part)}`, async () => {
        await disk.makeDirectory(path.dirname(fileOf(part, 'rollouts')));
        return await openPartWriter(
          { what: nameOf(part), kinds, fileOf: (kind) => fileOf(part, kind), disk },
          resume,
        );
      }),
    join: (parts) =>
      storing(`joining the parts of ${batch}`, async () => {
        const sourcesOf = (kind: Kind): string[] => parts.map((part) => fileOf(part, kind));
        for (const kind of ['rollouts', 'failures'] as const)
          await disk.replaceFile(files[kind], (handle) => concatenate(sourcesOf(kind), handle));
        if (files.sequences !== undefined)
          await disk.replaceFile(files.sequences, async (handle) => {
            await handle.writeFile(HEAD);
            await concatenate(sourcesOf('sequences'), handle);
            await handle.writeFile(END);
          });
        return await summariesIn(sourcesOf('summaries'));
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

async function writeLines(
  handle: FileHandle,
  lines: Iterable<string> | AsyncIterable<string>,
): Promise<void> {
  for await (const line of lines) await handle.writeFile(`${line}\n`);
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
