import { writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import { RetrieverSettings } from '../../../src/environments/retriever/settings.js';
import { makeTemporaryDirectory } from '../../../lab/bed/temporary-directory.js';

/** Settings of a retriever over a file with these contents, which is gone after the test. */
export async function corpusFile(
  t: Pick<TestContext, 'after'>,
  { text, ...given }: { text: string } & Partial<RetrieverSettings>,
): Promise<RetrieverSettings> {
  const directory = await makeTemporaryDirectory('corpus');
  t.after(directory.remove);
  const corpus = path.join(directory.path, 'corpus.jsonl');
  await writeFile(corpus, text);
  return RetrieverSettings.parse({ kind: 'retriever', corpus, ...given });
}

/** A folder for kept indexes, which is gone after the test. */
export async function indexFolder(t: Pick<TestContext, 'after'>): Promise<string> {
  const directory = await makeTemporaryDirectory('indexes');
  t.after(directory.remove);
  return directory.path;
}

export const linesOf = (documents: readonly string[]): string =>
  documents.map((text, id) => `${JSON.stringify({ id, text })}\n`).join('');
