import { statSync } from 'node:fs';
import path from 'node:path';
import type { Disk } from '../../platform/files.js';
import { isMissing } from '../../platform/files.js';
import { readWholeNow } from '../../platform/regular-file.js';
import type { Facts, Series } from '../trajectory-store.js';
import { factOf } from '../places.js';
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
  return {
    put: ({ series, n, text }) =>
      storing(`fact ${series.join('/')} ${n}`, async () => {
        const file = fileOf(series, n);
        await disk.makeDirectory(path.dirname(file));
        return await disk.putOnce(file, text);
      }),
    find: (series, n) => storing(`fact ${series.join('/')} ${n}`, () => read(series, n)),
    last: (series, known) =>
      storing(`facts ${series.join('/')}`, () => {
        const n = lastThatIs((number) => isThere(fileOf(series, number)), known);
        const text = n === known ? null : read(series, n);
        return text === null ? null : { series, n, text };
      }),
  };
}

/** Throws where the disk cannot be read: a fact that is not seen would count as one that was never put. */
const isThere = (file: string): boolean => statSync(file, { throwIfNoEntry: false }) !== undefined;

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
