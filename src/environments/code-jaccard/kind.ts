import { z } from 'zod';
import { preview } from '../../model/problems.js';
import { createFloat32Mean, formatFixed } from '../../platform/python/numbers.js';
import { countCodePoints, splitWords, strip } from '../../platform/python/text.js';
import { type GroundTruthCheck, groundTruthQuestions } from '../math/ground-truth.js';
import type {
  Environment,
  FinishedRollouts,
  StepContext,
  Turn,
  TurnAnswer,
} from '../environment.js';
import { defineKind, inJavaScript } from '../kind.js';
import { parsedInfo, rejected } from '../rejections.js';
import { environmentSays, saidIn, stepNow } from '../turn.js';

export const codeJaccard = defineKind({
  settings: z.strictObject({
    kind: z.literal('code_jaccard').describe('similarity to the ground truth, by words'),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createCodeJaccard),
});

const JaccardMetadata = z.looseObject({ ground_truth: z.string() });

const CHECK: GroundTruthCheck = {
  problemOf: (ground_truth) =>
    strip(ground_truth) === '' ? `expected code, got ${preview(ground_truth)}` : null,
};

/** Upstream's code_jaccard: one turn, rewarded by the similarity of its words to the ground truth's. */
export function createCodeJaccard(): Environment {
  return {
    step: stepNow(answerTurn),
    ...groundTruthQuestions(CHECK),
    globalPostProcessAndMetrics: alignment,
  };
}

function answerTurn(turn: Turn, context: StepContext): TurnAnswer {
  const { metadata } = turn;
  const { ground_truth } = parsedInfo(JaccardMetadata, { name: 'code jaccard', info: metadata });
  const what = context.prompt_length === undefined ? null : CHECK.problemOf(ground_truth);
  if (what !== null)
    throw rejected({ subject: 'code jaccard', problems: [{ where: 'ground_truth', what }] });
  const { response } = saidIn(turn, context);
  const reward = codeSimilarity(response, ground_truth);
  const verdict = reward > 0.5 ? 'aligned' : 'misaligned';
  return {
    observation: environmentSays(
      `Environment: jaccard ${verdict} (score: ${formatFixed(reward, 2)})`,
    ),
    reward,
    terminated: true,
    metadata,
    answer: strip(response),
  };
}

/** Means of float32 rewards, as in upstream's tensors; null without rollouts. */
async function alignment(rollouts: FinishedRollouts): Promise<Record<string, number> | null> {
  const aligned = createFloat32Mean();
  const score = createFloat32Mean();
  const high = createFloat32Mean();
  for await (const { total_reward } of rollouts) {
    const reward = Math.fround(total_reward);
    aligned.add(Number(reward > 0.5));
    score.add(reward);
    // Upstream compares with a double: torch turns it to float32 for a float32 tensor.
    high.add(Number(reward > Math.fround(0.8)));
  }
  if (score.count() === 0) return null;
  return {
    preference_alignment_rate: aligned.mean(),
    average_preference_score: score.mean(),
    high_alignment_rate: high.mean(),
  };
}

/** From 0 to 1: shared words over all words, times the shorter length over the longer one. */
function codeSimilarity(response: string, ground_truth: string): number {
  const said = strip(response).toLowerCase();
  const expected = strip(ground_truth).toLowerCase();
  if (said === expected) return 1;
  const saidWords = new Set(splitWords(said));
  const expectedWords = new Set(splitWords(expected));
  if (expectedWords.size === 0) return 0;
  const shared = [...saidWords].filter((word) => expectedWords.has(word)).length;
  const all = saidWords.size + expectedWords.size - shared;
  const [shorter = 0, longer = 0] = [said, expected].map(countCodePoints).sort((a, b) => a - b);
  return (shared / all) * (shorter / longer);
}
