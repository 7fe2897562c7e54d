import { mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import type { TestContext } from 'node:test';
import type { JournalLine } from '../../src/model/journal.js';
import { lineText } from '../../src/model/journal.js';
import type { TrajectoryStore } from '../../src/trajectories/trajectory-store.js';
import { BATCH, requestOf, sampleOf, temporaryStore } from '../fakes/temporary-store.js';

export type Journals = Record<`${number}-${number}`, readonly JournalLine[]> & {
  samples?: readonly string[];
};

/** A batch whose journals are these lines, a rollout each, by `<row>-<repeat>`. */
export async function storeOf(
  t: Pick<TestContext, 'after'>,
  { samples = [sampleOf('go')], ...journals }: Journals,
): Promise<{ store: TrajectoryStore; root: string; fileOf: (place: string) => string }> {
  const { store, root, journalFile } = await temporaryStore(t);
  await store.createBatch({ batch_id: BATCH, request: requestOf({ num_repeats: 2 }), samples });
  const folder = path.dirname(journalFile());
  const fileOf = (place: string): string => path.join(folder, `${place}.jsonl`);
  await mkdir(folder, { recursive: true });
  for (const [place, lines] of Object.entries<readonly JournalLine[]>(journals))
    // As a writer begins one: a torn line before it costs only itself.
    await writeFile(fileOf(place), `\n${lines.map(lineText).join('')}`);
  return { store, root, fileOf };
}
