import { z } from 'zod';
import { defineKind, inJavaScript } from '../kind.js';
import { createSlidingPuzzle } from './environment.js';

export const slidingPuzzle = defineKind({
  settings: z.strictObject({
    kind: z.literal('sliding_puzzle').describe("NeMo RL's sliding puzzle"),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createSlidingPuzzle),
});
