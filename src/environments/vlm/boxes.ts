import { parseFloatText } from '../../platform/python/numbers.js';

/** x1, y1, x2, y2. */
type Box = [number, number, number, number];

interface Compared {
  ground_truth: string;
  /** null: the response has none. */
  answer: string | null;
  /** From this intersection over union on there is no penalty. */
  penalty_threshold: number;
}

/** `standard`: generalised intersection over union, from -1 to 1; 0 without a box on both sides. */
export function boxReward({ ground_truth, answer, penalty_threshold }: Compared): number {
  const gold = boxIn(ground_truth);
  const given = answer === null ? null : boxIn(answer);
  if (gold === null || given === null) return 0;
  // In units of the largest coordinate, so that no area overflows.
  const unit = Math.max(...[...gold, ...given].map(Math.abs));
  const boxes = [gold, given].map((box) => box.map((value) => value / unit)) as [Box, Box];
  const { both, either, hull } = areas(boxes);
  const iou = either > 0 ? both / either : 0;
  const isPenalised = iou < penalty_threshold && hull > 0;
  const reward = isPenalised ? iou - (hull - either) / hull : iou;
  return Math.min(1, Math.max(-1, reward));
}

export function boxIn(text: string): Box | null {
  const box = fourNumbers(text);
  if (box?.every(Number.isFinite) !== true) return null;
  const [x1, y1, x2, y2] = box;
  return x1 < x2 && y1 < y2 ? box : null;
}

const SMALLEST_AREA = 1e-3;

/**
 * Upstream's rule. Corners in another order make negative areas, and a reward of any size; infinite ones make NaN. An
 * area below 0.001 counts as 0.001, so a small box in units of the picture's size pays little.
 */
export function upstreamBoxReward({ ground_truth, answer, penalty_threshold }: Compared): number {
  const gold = fourNumbers(ground_truth);
  const given = answer === null ? null : fourNumbers(answer);
  if (gold === null || given === null) return 0;
  const all = areas([gold, given]);
  const either = max(SMALLEST_AREA, all.either);
  const iou = all.both / either;
  if (!(iou < penalty_threshold)) return iou;
  const hull = max(SMALLEST_AREA, all.hull);
  return iou - (hull - either) / hull;
}

/**
 * Four numbers between commas, brackets anywhere; null for everything else. Upstream accepts `nan`, and its `max` then
 * pays 1000 for four of them; here they are not numbers.
 */
function fourNumbers(text: string): Box | null {
  const numbers = text.replaceAll(/[[\]]/g, '').split(',').map(parseFloatText);
  const [x1, y1, x2, y2] = numbers;
  const all = [x1, y1, x2, y2].every((value) => typeof value === 'number' && !Number.isNaN(value));
  return all && numbers.length === 4 ? ([x1, y1, x2, y2] as Box) : null;
}

/** As in Python: a NaN is never greater, so the first one stays. */
const max = (a: number, b: number): number => (b > a ? b : a);
const min = (a: number, b: number): number => (b < a ? b : a);

/** The areas of the intersection, the union and the smallest box around both. */
function areas([g, r]: [Box, Box]): { both: number; either: number; hull: number } {
  const area = ([x1, y1, x2, y2]: Box): number => (x2 - x1) * (y2 - y1);
  const width = max(0, min(g[2], r[2]) - max(g[0], r[0]));
  const height = max(0, min(g[3], r[3]) - max(g[1], r[1]));
  const both = width * height;
  const hull = area([min(g[0], r[0]), min(g[1], r[1]), max(g[2], r[2]), max(g[3], r[3])]);
  return { both, either: area(g) + area(r) - both, hull };
}
