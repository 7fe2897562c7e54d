import { readdirSync, statSync } from 'node:fs';
import { rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../platform/files.js';
import { ifThere, isMissing } from '../../platform/files.js';
import type { Fact, Facts, Series } from '../trajectory-store.js';
import { factOf, seriesOf } from '../places.js';
import { readWholeNow } from '../../platform/regular-file.js';
import { storing } from '../storing.js';

/** One file per fact. Read synchronously, as journals are: every chunk of a fenced stream reads the last one. */
export function createFileFacts(root: string, disk: Disk): Facts {
  const fileOf = (series: Series, n: number): string => factOf(root, { series, n });
  const read = (series: Series, n: number): Promise<string | null> =>
    ifThere(() => readWholeNow(fileOf(series, n)).toString());
  const last = async (series: Series, known: number): Promise<Fact | null> => {
    const is = (n: number): boolean => isThere(fileOf(series, n));
    for (;;) {
      // A reader may be so far behind that its fact is forgotten, with some of those that follow.
      const isKnown = known >= 0 && is(known);
      let n = isKnown ? known : lastListed(seriesOf(root, series), is);
      // There are no gaps above a fact that is there: this is one look if nothing is new.
      while (is(n + 1)) n += 1;
      if (n <= known) return null;
      const text = await read(series, n);
      // If it was forgotten just now, there is a later one.
      if (text !== null) return { series, n, text };
    }
  };
  /** None cost one look. */
  const after = async (
    found: Fact[],
    { series, known }: { series: Series; known: number },
  ): Promise<void> => {
    for (let n = known + 1; isThere(fileOf(series, n)); n++) {
      const text = await read(series, n);
      if (text === null) break;
      found.push({ series, n, text });
    }
  };
  return {
    put: ({ series, n, text }) =>
      storing(`fact ${series.join('/')} ${n}`, () =>
        putIn(disk, { file: fileOf(series, n), text }),
      ),
    find: (series, n) => storing(`fact ${series.join('/')} ${n}`, () => read(series, n)),
    last: (series, known) => storing(`facts ${series.join('/')}`, () => last(series, known)),
    news: (of) =>
      storing('facts', async () => {
        const found: Fact[] = [];
        for (const one of of) await after(found, one);
        return found;
      }),
    forget: (series, numbers) =>
      storing(`facts ${series.join('/')}`, async () => {
        for (const n of numbers) await forget(fileOf(series, n), root);
      }),
  };
}

/** How often the folder may vanish before the file is in it: its last fact was forgotten just then. */
const TRIES = 5;

async function putIn(disk: Disk, { file, text }: { file: string; text: string }): Promise<boolean> {
  for (let tries = TRIES; ; tries--) {
    try {
      await disk.makeDirectory(path.dirname(file));
      return await disk.putOnce(file, text);
    } catch (error) {
      if (tries === 1 || !isMissing(error)) throw error;
    }
  }
}

/** With its folders, as far as nothing else is in them: each rollout of an agent would leave one. */
async function forget(file: string, root: string): Promise<void> {
  await rm(file, { force: true });
  try {
    for (let at = path.dirname(file); at !== root; at = path.dirname(at)) await rmdir(at);
  } catch {
    // Something is there.
  }
}

/** Throws where the disk cannot be read: a fact that is not seen would count as one that was never put. */
const isThere = (file: string): boolean => statSync(file, { throwIfNoEntry: false }) !== undefined;

/** The highest number in the folder of a series, whatever is missing below; -1: none. */
function lastListed(folder: string, is: (n: number) => boolean): number {
  if (!isThere(folder)) return -1;
  const numbers = readdirSync(folder).flatMap((name) => /^\d+/.exec(name) ?? []);
  return (
    numbers
      .map(Number)
      .sort((a, b) => b - a)
      .find(is) ?? -1
  );
}
