import { z } from 'zod';
import { defineKind, inJavaScript } from '../kind.js';
import { createCodeJaccard } from './environment.js';

export const codeJaccard = defineKind({
  settings: z.strictObject({
    kind: z.literal('code_jaccard').describe('similarity to the ground truth, by words'),
  }),
  answers: () => 'in process',
  roles: ['environment'],
  make: inJavaScript(createCodeJaccard),
});
