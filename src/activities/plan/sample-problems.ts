import type { BatchRequest } from '../../model/batch-request.js';
import type { Problem } from '../../model/problems.js';
import { invalidBatchRequest } from '../../model/problems.js';
import { shortened } from '../../platform/errors.js';
import { isPut } from './inputs.js';

/** More than ten problems do not help; reading stops soon after. */
const ENOUGH_PROBLEMS = 11;
const MOST_RANGES = 5;

export type Ranges = [first: number, last: number][];

/** Rows come in their order. */
export function addRow(ranges: Ranges, row: number): void {
  const last = ranges.at(-1);
  if (last !== undefined && last[1] >= row - 1) last[1] = row;
  else ranges.push([row, row]);
}

/**
 * The problems of a batch's samples: one that many rows have is one, with all its rows. `samples`: of the request, whose
 * file the problems name.
 */
export function collectProblems(samples: BatchRequest['samples']) {
  const found = new Map<string, Problem & { ranges: Ranges }>();
  return {
    add: (row: number, problems: readonly Problem[]): void => {
      for (const problem of problems) {
        const key = JSON.stringify([problem.where, problem.what]);
        const { ranges } = found.get(key) ?? { ranges: [] };
        addRow(ranges, row);
        found.set(key, { ...problem, ranges });
      }
    },
    isEmpty: () => found.size === 0,
    isEnough: () => found.size >= ENOUGH_PROBLEMS,
    /** `is_all`: every sample was looked at. */
    fault: (read: { is_all: boolean }) =>
      invalidBatchRequest(
        [...found.values()].map(({ where, what, ranges }) => ({
          where: placeOf(ranges, { where, samples }),
          what,
        })),
        read,
      ),
  };
}

export const placeOf = (
  ranges: Ranges,
  { where, samples }: { where: string; samples: BatchRequest['samples'] },
): string =>
  [`samples ${rowsText(ranges)}${lineText(ranges, samples)}`, where]
    .filter((part) => part !== '')
    .join(': ');

/** The line of the first row, which editors count from 1, in a file that somebody wrote by hand or by a script. */
function lineText(ranges: Ranges, samples: BatchRequest['samples']): string {
  const [first] = ranges;
  if (first === undefined || !('path' in samples) || isPut(samples.path)) return '';
  return ` (${shortened(samples.path, 80)}:${first[0] + 1})`;
}

function rowsText(ranges: Ranges): string {
  const named = ranges
    .slice(0, MOST_RANGES)
    .map(([first, last]) => (first === last ? `${first}` : `${first} to ${last}`));
  const others = ranges
    .slice(MOST_RANGES)
    .reduce((count, [first, last]) => count + last - first + 1, 0);
  const isOne = ranges.length === 1 && ranges[0]?.[0] === ranges[0]?.[1];
  return `row${isOne ? '' : 's'} ${named.join(', ')}${others === 0 ? '' : ` and ${others} more`}`;
}
