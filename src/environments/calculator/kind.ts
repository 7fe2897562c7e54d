import { z } from 'zod';
import { defineKind, inJavaScript } from '../kind.js';
import { createCalculator } from './environment.js';

export const calculator = defineKind({
  settings: z.strictObject({
    kind: z.literal('calculator').describe("NeMo RL's multi-step calculator"),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createCalculator),
});
