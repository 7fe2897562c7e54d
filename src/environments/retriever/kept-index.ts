import { createHash, randomUUID } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, readdir, rename, rm, stat } from 'node:fs/promises';
import path from 'node:path';
import { pipeline } from 'node:stream/promises';
import { exists } from '../../platform/files.js';
import { describeError } from '../../platform/errors.js';
import { type CorpusFiles, filesOf } from './corpus/files.js';
import { readCorpus } from './corpus/corpus.js';
import { createIndexBuilder } from './index-builder.js';
import { type KeptIndex, openIndex } from './index-files.js';
import type { RetrieverSettings } from './settings.js';
import type { Tokenize } from './tokenizers.js';

/** Another version of the files is another index. */
const VERSION = 1;
const BUILDING = '.building';
const DAY_MS = 24 * 60 * 60 * 1000;

export interface Indexing {
  settings: Pick<
    RetrieverSettings,
    'corpus' | 'split' | 'text_column' | 'tokenizer' | 'vocabulary'
  >;
  tokenize: Tokenize;
  folder: string;
}

/** Opens the index of a corpus, or builds it: once for each content, column and tokenizer, also for other processes. */
export async function keptIndex(indexing: Indexing): Promise<KeptIndex & { was_kept: boolean }> {
  const { settings, folder } = indexing;
  const files = await filesOf(settings).catch((error: unknown) => {
    throw new Error(`${settings.corpus}: ${describeError(error)}`, { cause: error });
  });
  const own = path.join(folder, await nameOf(files, settings));
  const was_there = await exists(own);
  const kept = await openIndex(own);
  if (kept !== null) return { ...kept, was_kept: true };
  await removeAbandoned(folder);
  if (was_there) await removeDamaged(own);
  await build(own, { ...indexing, files });
  const built = await openIndex(own);
  if (built === null) throw new Error(`${own}: expected the index that was just built`);
  return { ...built, was_kept: false };
}

async function nameOf(
  { format, files }: CorpusFiles,
  { tokenizer, vocabulary, text_column }: Indexing['settings'],
): Promise<string> {
  const parts = [String(VERSION), tokenizer, text_column, format];
  parts.push(vocabulary === undefined ? '' : await hashOf(vocabulary));
  for (const file of files) parts.push(await hashOf(file));
  return createHash('sha256').update(parts.join('\n')).digest('hex').slice(0, 32);
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256');
  await pipeline(createReadStream(file, { highWaterMark: 2 ** 20 }), hash);
  return hash.digest('hex');
}

/** Moved first: nobody opens a half of it. */
async function removeDamaged(own: string): Promise<void> {
  const aside = `${own}${BUILDING}-${randomUUID()}`;
  await rename(own, aside).catch(() => undefined);
  await rm(aside, { recursive: true, force: true });
}

interface Building extends Indexing {
  files: CorpusFiles;
}

/** Under its name it is whole. Of several that build it at once, the first one's stays. */
async function build(own: string, { settings, tokenize, files }: Building): Promise<void> {
  const building = `${own}${BUILDING}-${randomUUID()}`;
  await mkdir(building, { recursive: true });
  try {
    const builder = createIndexBuilder({ folder: building, tokenize });
    for await (const text of readCorpus(files, settings.text_column)) builder.add(text);
    if (builder.documents() === 0)
      throw new Error(`${settings.corpus}: expected documents, got none`);
    builder.finish();
    await rename(building, own).catch(async (error: unknown) => {
      if ((await openIndex(own)) === null) throw error;
    });
  } finally {
    await rm(building, { recursive: true, force: true });
  }
}

/** Removes indexes whose builders were killed. */
async function removeAbandoned(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  for (const name of names.filter((one) => one.includes(BUILDING))) {
    const own = path.join(folder, name);
    const { mtimeMs } = await stat(own).catch(() => ({ mtimeMs: Date.now() }));
    if (Date.now() - mtimeMs > DAY_MS) await rm(own, { recursive: true, force: true });
  }
}
