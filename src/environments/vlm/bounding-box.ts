import { parseFloatText } from '../../platform/python/numbers.js';

/** x1, y1, x2, y2. */
export type Box = [number, number, number, number];

/**
 * Four numbers between commas, brackets anywhere; null for all else. Upstream takes `nan`, and its `max` then pays a
 * reward of 1000 for four of them: here they are no numbers.
 */
export function parseBox(text: string): Box | null {
  const numbers = text.replaceAll(/[[\]]/g, '').split(',').map(parseFloatText);
  const [x1, y1, x2, y2] = numbers;
  const all = [x1, y1, x2, y2].every((value) => typeof value === 'number' && !Number.isNaN(value));
  return all && numbers.length === 4 ? ([x1, y1, x2, y2] as Box) : null;
}

/** Python's: a NaN is never greater, so the first stays. */
const max = (a: number, b: number): number => (b > a ? b : a);
const min = (a: number, b: number): number => (b < a ? b : a);

const SMALLEST_AREA = 1e-3;

/** Intersection over union; below the threshold less the part of the hull that neither covers (statement 65). */
export function generalisedIou([g, r]: [Box, Box], penalty_threshold: number): number {
  const area = ([x1, y1, x2, y2]: Box): number => (x2 - x1) * (y2 - y1);
  const width = max(0, min(g[2], r[2]) - max(g[0], r[0]));
  const height = max(0, min(g[3], r[3]) - max(g[1], r[1]));
  const both = width * height;
  const either = max(SMALLEST_AREA, area(g) + area(r) - both);
  const iou = both / either;
  if (!(iou < penalty_threshold)) return iou;
  const hull = area([min(g[0], r[0]), min(g[1], r[1]), max(g[2], r[2]), max(g[3], r[3])]);
  const hull_area = max(SMALLEST_AREA, hull);
  return iou - (hull_area - either) / hull_area;
}
