import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import { indentedJson } from '../../platform/json/indented.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import { IN_PAYLOADS } from '../../model/workflow-safe/foreign.js';
import type { Formats } from '../../model/results/arrow/formats.js';
import type { GroupFiles } from '../../model/workflow-safe/groups.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import { linesOf } from '../../platform/lines.js';
import { exists, isMissing } from '../../platform/files.js';
import { openToRead, readWhole } from '../../platform/regular-file.js';
import type { Disk } from '../../platform/files.js';
import { storing, storingEach } from '../storing.js';
import { groupsOf, partOf } from '../places.js';
import { END, HEAD } from '../arrow/batches.js';
import type { BatchOutputs, ResultFiles } from '../trajectory-store.js';
import { exportRows, writeLines, writeSequences } from '../export.js';
import type { Kind } from '../part-files.js';
import { kindsOf } from '../part-files.js';
import { openPartWriter } from './part-writer.js';

/** Parts by another release, whose sequences have other columns, are closed again. */
const BATCHES = `sequences-${createHash('sha256').update(HEAD).digest('hex').slice(0, 8)}.batches`;

/** `formats`: of the valid rollouts. */
export function createFileOutputs(
  directory: string,
  { disk, formats }: { disk: Disk; formats: Formats },
): BatchOutputs {
  const kinds = kindsOf(formats);
  const batch = path.basename(directory);
  const files = filesIn(directory, kinds);
  const partsDirectory = path.join(directory, 'parts');
  const nameOf = ({ first, last }: RowRange): string => `rows ${first} to ${last} of ${batch}`;
  const fileOf = (part: RowRange, kind: Kind): string =>
    path.join(partOf(partsDirectory, part), kind === 'sequences' ? BATCHES : `${kind}.jsonl`);

  const readRollouts = (): AsyncGenerator<string> =>
    storingEach(`reading ${path.basename(files.rollouts)}`, () => wholeLines(files.rollouts));

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
        await joinInto(files, { sourcesOf, disk });
        return await summariesIn(sourcesOf('summaries'));
      }),
    exportRollouts: (to) => exportRows(readRollouts(), to),
    readRollouts,
    putGroups: ({ from, to }, lines) =>
      storing(`groups ${from} to ${to} of ${batch}`, () =>
        putGroups({ from, to }, { directory, disk, formats, lines }),
      ),
    putGroupTable: (lines) =>
      storing(`writing groups.jsonl of ${batch}`, () =>
        disk.replaceFile(files.groups, async (handle) => {
          await writeLines(handle, lines);
        }),
      ),
    putMetrics: (result) =>
      storing(`writing metrics.json of ${batch}`, async () => {
        await disk.replaceFile(files.metrics, `${indentedJson(writeJson(result))}\n`);
        await rm(partsDirectory, { recursive: true, force: true });
        return result;
      }),
    readMetrics: () =>
      storing(`reading metrics.json of ${batch}`, () => readJsonFile(files.metrics)),
  };
}

async function putGroups(
  places: { from: number; to: number },
  {
    directory,
    disk,
    formats,
    lines,
  }: { directory: string; disk: Disk; formats: Formats; lines: () => AsyncIterable<string> },
): Promise<GroupFiles> {
  const fileOf = (extension: string): string => groupsOf(directory, { ...places, extension });
  const file = fileOf('jsonl');
  if (!(await exists(file))) {
    await disk.makeDirectory(path.dirname(file));
    await disk.putOnce(file, async (handle) => {
      await writeLines(handle, lines());
    });
  }
  if (!formats.includes('arrow')) return { file };
  const [sequences, made] = [fileOf('arrow'), fileOf('json')];
  const standing = await readJsonFile(made);
  if (standing !== null) return { file, sequences, ...Made.parse(standing) };
  // Whoever makes it makes it of the same lines.
  let completed = 0;
  await disk.replaceFile(sequences, async (handle) => {
    completed = await writeSequences(handle, wholeLines(file));
  });
  await disk.replaceFile(made, JSON.stringify({ completed } satisfies z.infer<typeof Made>));
  return { file, sequences, completed };
}

/** That the groups' Arrow file is there, and how many rollouts it has. */
const Made = z.strictObject({ completed: z.int().nonnegative() });

const filesIn = (directory: string, kinds: readonly Kind[]): ResultFiles => ({
  rollouts: path.join(directory, 'rollouts.jsonl'),
  failures: path.join(directory, 'failures.jsonl'),
  groups: path.join(directory, 'groups.jsonl'),
  metrics: path.join(directory, 'metrics.json'),
  ...(kinds.includes('sequences') && { sequences: path.join(directory, 'rollouts.arrow') }),
});

/** A file that was cut has half a line at its end. */
async function* wholeLines(file: string): AsyncGenerator<string> {
  for await (const { text, ended, number } of linesOf(file)) {
    if (!ended) throw new Error(`line ${number} has no end: the file was cut, or copied in part`);
    yield text;
  }
}

/** null: there is none. */
async function readJsonFile(file: string): Promise<unknown> {
  try {
    return readJson((await readWhole(file)).toString(), IN_PAYLOADS);
  } catch (error) {
    if (isMissing(error)) return null;
    throw error;
  }
}

async function joinInto(
  { rollouts, failures, sequences }: ResultFiles,
  { sourcesOf, disk }: { sourcesOf: (kind: Kind) => string[]; disk: Disk },
): Promise<void> {
  await disk.replaceFile(rollouts, (handle) => concatenate(sourcesOf('rollouts'), handle));
  await disk.replaceFile(failures, (handle) => concatenate(sourcesOf('failures'), handle));
  if (sequences === undefined) return;
  await disk.replaceFile(sequences, async (handle) => {
    await handle.writeFile(HEAD);
    await concatenate(sourcesOf('sequences'), handle);
    await handle.writeFile(END);
  });
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
