import type { GraderPool } from '../math/grader-pool.js';
import {
  checkedByGrader,
  gradedAgainstItself,
  type GroundTruthCheck,
} from '../math/ground-truth.js';
import { boxIn } from './boxes.js';
import { preview } from '../../model/problems.js';
import { boxed, exactAlnum } from './reward-functions.js';
import type { RewardFunction } from './settings.js';

/**
 * A sample's ground truth may be meant for one of the functions, as where boxes and maths are one task. So it is
 * refused if each function that looks at it pays every answer alike.
 */
export function groundTruthCheckOf(
  functions: readonly RewardFunction[],
  grader: GraderPool,
): GroundTruthCheck {
  const asked = checkedByGrader(grader, boxed);
  const checks = functions.flatMap((chosen) => checkOf(chosen, asked) ?? []);
  const firstOf = (problems: (string | null)[]): string | null =>
    problems.length === 0 || problems.includes(null) ? null : (problems[0] ?? null);
  const problemOf: GroundTruthCheck['problemOf'] = (ground_truth) =>
    firstOf(checks.map((check) => check.problemOf(ground_truth)));
  // Others can tell at once.
  if (!checks.every(({ ask }) => ask !== undefined) || checks.length === 0) return { problemOf };
  return { problemOf, ask: asked.ask };
}

/** null: the function does not look at the ground truth. */
function checkOf(chosen: RewardFunction, asked: GroundTruthCheck): GroundTruthCheck | null {
  switch (chosen.name) {
    case 'format':
      return null;
    case 'exact_alnum': {
      const { answer_tag: tag } = chosen.kwargs;
      return gradedAgainstItself({
        isRight: (ground_truth, response) => exactAlnum({ ground_truth, response }, tag) === 1,
        say: (answer) => `<${tag}>${answer}</${tag}>`,
      });
    }
    case 'bbox_giou':
      return {
        problemOf: (ground_truth) =>
          boxIn(ground_truth) === null
            ? `expected a box [x1, y1, x2, y2] with x1 < x2 and y1 < y2, got ${preview(ground_truth)}`
            : null,
      };
    case 'math_expr':
    case 'geo3k':
      return asked;
  }
}
