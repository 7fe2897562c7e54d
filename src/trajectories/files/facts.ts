import { readdirSync, statSync } from 'node:fs';
import { rm, rmdir } from 'node:fs/promises';
import path from 'node:path';
import type { Disk } from '../../platform/files.js';
import { isMissing } from '../../platform/files.js';
import type { Fact, Facts, Series } from '../trajectory-store.js';
import { factOf, seriesOf } from '../places.js';
import { readWholeNow } from '../../platform/regular-file.js';
import { storing } from '../storing.js';

/** One file per fact. Read synchronously, as journals are: every chunk of a fenced stream reads the last one. */
export function createFileFacts(root: string, disk: Disk): Facts {
  const fileOf = (series: Series, n: number): string => factOf(root, { series, n });
  const read = (series: Series, n: number): string | null => {
    try {
      return readWholeNow(fileOf(series, n)).toString();
    } catch (error) {
      if (isMissing(error)) return null;
      throw error;
    }
  };
  const last = (series: Series, known: number): Fact | null => {
    const is = (n: number): boolean => isThere(fileOf(series, n));
    for (;;) {
      const n = lastThatIs(is, known === -1 ? lastListed(seriesOf(root, series), is) : known);
      if (n === known) return null;
      const text = read(series, n);
      // If it was forgotten just now, there is a later one.
      if (text !== null) return { series, n, text };
    }
  };
  /** None cost one look. */
  const after = ({ series, known }: { series: Series; known: number }): Fact[] => {
    const found: Fact[] = [];
    for (let n = known + 1; isThere(fileOf(series, n)); n++) {
      const text = read(series, n);
      if (text === null) break;
      found.push({ series, n, text });
    }
    return found;
  };
  return {
    put: ({ series, n, text }) =>
      storing(`fact ${series.join('/')} ${n}`, async () => {
        const file = fileOf(series, n);
        await disk.makeDirectory(path.dirname(file));
        return await disk.putOnce(file, text);
      }),
    find: (series, n) => storing(`fact ${series.join('/')} ${n}`, () => read(series, n)),
    last: (series, known) => storing(`facts ${series.join('/')}`, () => last(series, known)),
    news: (of) => storing('facts', () => of.flatMap(after)),
    forget: (series, numbers) =>
      storing(`facts ${series.join('/')}`, async () => {
        for (const n of numbers) await forget(fileOf(series, n), seriesOf(root, series));
      }),
  };
}

/** With its own folder, if it has one and is alone there. */
async function forget(file: string, series: string): Promise<void> {
  await rm(file, { force: true });
  if (path.dirname(file) !== series) await rmdir(path.dirname(file)).catch(() => undefined);
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

/** There are no gaps, so finding the last one takes one look if nothing is new, and few otherwise. */
function lastThatIs(is: (n: number) => boolean, known: number): number {
  let step = 1;
  while (is(known + step)) step *= 2;
  let [there, missing] = [known + Math.floor(step / 2), known + step];
  while (missing - there > 1) {
    const middle = Math.floor((there + missing) / 2);
    if (is(middle)) there = middle;
    else missing = middle;
  }
  return there;
}
