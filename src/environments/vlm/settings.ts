import { z } from 'zod';
import { STEP_QUEUE } from '../kind.js';

/** A tag becomes part of a search, so it must be a plain name. */
const Tag = z.string().regex(/^[\w-]+$/, 'expected a tag name such as answer');

const FUNCTIONS = {
  format: z.strictObject({
    think_tag: Tag.default('think').describe('the tag of thoughts'),
    answer_tag: Tag.default('answer').describe('the tag of the answer'),
  }),
  exact_alnum: z.strictObject({
    answer_tag: Tag.default('answer').describe('the tag of the answer'),
  }),
  math_expr: z.strictObject({ tag: Tag.default('answer').describe('the tag of the answer') }),
  bbox_giou: z.strictObject({
    giou_penalty_thres: z
      .number()
      .default(10)
      .describe('below this overlap (IoU), the score is the generalised IoU'),
    answer_tag: Tag.default('answer').describe('the tag of the answer'),
  }),
  geo3k: z.strictObject({
    format_score: z.number().default(0.1).describe('reward of the format alone'),
  }),
};

const of = <Name extends keyof typeof FUNCTIONS>(name: Name) =>
  z.strictObject({
    name: z.literal(name).describe('the function'),
    weight: z.number().describe('its share of the reward'),
    kwargs: z.prefault(FUNCTIONS[name], {} as never).describe('its settings'),
  });

const RewardFunction = z.discriminatedUnion(
  'name',
  [of('format'), of('exact_alnum'), of('math_expr'), of('bbox_giou'), of('geo3k')],
  { error: ({ input }) => describeName(input) },
);
export type RewardFunction = z.infer<typeof RewardFunction>;

function describeName(input: unknown): string | undefined {
  if (typeof input !== 'object' || input === null || !('name' in input)) return undefined;
  const known = Object.keys(FUNCTIONS).join(', ');
  return `Invalid reward function: ${String(input.name)}; known (got no other): ${known}`;
}

export const VlmSettings = z.strictObject({
  kind: z.literal('vlm').describe('reward functions of texts and boxes'),
  reward_functions: z
    .array(RewardFunction)
    .min(1, 'No reward functions provided')
    .refine((functions) => sumOfWeights(functions) !== 0 || functions.length === 0, {
      error: 'the weights are renormalised: expected a sum other than 0, got 0',
    })
    .describe('functions and their weights, which are scaled to a sum of 1'),
  ...STEP_QUEUE,
});
export type VlmSettings = z.infer<typeof VlmSettings>;

export const sumOfWeights = (functions: { weight: number }[]): number =>
  functions.reduce((sum, { weight }) => sum + weight, 0);

/** Maths is compared by a Python process; the others are pure functions. */
export const needsGrader = ({ name }: Pick<RewardFunction, 'name'>): boolean =>
  name === 'math_expr' || name === 'geo3k';
