import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import { readdir, rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import { z } from 'zod';
import type { Formats } from '../../model/results/arrow/formats.js';
import { IN_PAYLOADS } from '../../model/workflow-safe/foreign.js';
import type { GroupFiles } from '../../model/workflow-safe/groups.js';
import type { RowRange } from '../../model/workflow-safe/slices.js';
import type { Disk } from '../../platform/files.js';
import { exists, ifThere, syncDirectory } from '../../platform/files.js';
import { indentedJson } from '../../platform/json/indented.js';
import { readJson, writeJson } from '../../platform/json/kept.js';
import { linesOf, textsOf } from '../../platform/lines.js';
import { openToRead, readWhole } from '../../platform/regular-file.js';
import { END, HEAD } from '../arrow/batches.js';
import { writeLines, writeSequences } from '../export.js';
import { namedOutputs } from '../outputs.js';
import type { Kind } from '../part-files.js';
import { kindsOf } from '../part-files.js';
import { partOf, placesOf } from '../places.js';
import type { Outputs, ResultFiles } from '../trajectory-store.js';
import { openPartWriter } from './part-writer.js';

/** Parts by another release, whose sequences have other columns, are closed again. */
const BATCHES = `sequences-${createHash('sha256').update(HEAD).digest('hex').slice(0, 8)}.batches`;

const OUTPUTS = /^(parts$|(rollouts|failures|groups|metrics)\.json|rollouts\.arrow)/;

interface Written {
  disk: Disk;
  formats: Formats;
}

export function createFileOutputs(directory: string, { disk, formats }: Written): Outputs {
  const kinds = kindsOf(formats);
  const files = filesIn(directory, kinds);
  const parts = path.join(directory, 'parts');
  const groups = path.join(directory, 'groups');
  const fileOf = (part: RowRange, kind: Kind): string =>
    path.join(partOf(parts, part), kind === 'sequences' ? BATCHES : `${kind}.jsonl`);
  const remove = async (place: string): Promise<void> => {
    await rm(place, { recursive: true, force: true });
  };
  return namedOutputs(path.basename(directory), {
    files,
    isClosed: async (part) => {
      const found = kinds.map((kind) => exists(fileOf(part, kind)));
      return (await Promise.all(found)).every(Boolean);
    },
    openPart: async (part, resume) => {
      await disk.makeDirectory(path.dirname(fileOf(part, 'rollouts')));
      return await openPartWriter({ kinds, fileOf: (kind) => fileOf(part, kind), disk }, resume);
    },
    join: async (closed) => {
      const sourcesOf = (kind: Kind): string[] => closed.map((part) => fileOf(part, kind));
      await joinInto(files, { sourcesOf, disk });
      const summaries: string[] = [];
      for (const file of sourcesOf('summaries'))
        for await (const line of textsOf(file)) summaries.push(line);
      return summaries;
    },
    readRollouts: () => wholeLines(files.rollouts),
    putGroups: (places, lines) =>
      putGroups(path.join(groups, placesOf(places)), { disk, formats, lines }),
    putGroupTable: (lines) =>
      disk.replaceFile(files.groups, async (handle) => {
        await writeLines(handle, lines);
      }),
    putMetrics: async (result) => {
      await disk.replaceFile(files.metrics, `${indentedJson(writeJson(result))}\n`);
      await remove(parts);
      return result;
    },
    readMetrics: () => readJsonFile(files.metrics),
    /** The batch is no longer closed, even after a power cut. */
    reopen: async () => {
      await disk.makeDirectory(directory);
      for (const place of [files.metrics, parts, groups]) await remove(place);
      await syncDirectory(directory);
    },
    forget: async () => {
      // First: a step that has its metrics counts as written.
      await remove(files.metrics);
      for (const name of (await ifThere(() => readdir(directory))) ?? [])
        if (OUTPUTS.test(name)) await remove(path.join(directory, name));
      // The step's fact may be there.
      await rmdir(directory).catch(() => undefined);
    },
  });
}

/** `place`: the files' common path, without extension. */
async function putGroups(
  place: string,
  { disk, formats, lines }: Written & { lines: () => AsyncIterable<string> },
): Promise<GroupFiles> {
  const [file, sequences, made] = [`${place}.jsonl`, `${place}.arrow`, `${place}.json`];
  if (!(await exists(file))) {
    await disk.makeDirectory(path.dirname(file));
    await disk.putOnce(file, async (handle) => {
      await writeLines(handle, lines());
    });
  }
  if (!formats.includes('arrow')) return { file };
  const standing = await readJsonFile(made);
  if (standing !== null) return { file, sequences, ...Made.parse(standing) };
  // Every attempt makes it of the same lines.
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

const readJsonFile = (file: string): Promise<unknown> =>
  ifThere(async () => readJson((await readWhole(file)).toString(), IN_PAYLOADS));

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

async function concatenate(sources: readonly string[], target: FileHandle): Promise<void> {
  for (const source of sources) {
    const stream = (await openToRead(source)).createReadStream();
    for await (const bytes of stream as AsyncIterable<Buffer>) await target.writeFile(bytes);
  }
}
