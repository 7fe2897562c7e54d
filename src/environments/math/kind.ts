import { defineKind, inJavaScript } from '../kind.js';
import { createMathEnvironment } from './environment.js';
import { graderHealth } from './grader-pool.js';
import { isPureVerifier, MathSettings } from './settings.js';
import { verifierOf } from './verifiers.js';

export const math = defineKind({
  settings: MathSettings,
  answers: ({ verifier }) => (isPureVerifier(verifier) ? 'in process' : 'on this machine'),
  roles: ['environment'],
  make: inJavaScript(({ verifier, return_extracted_answer }: MathSettings, { grader }) => ({
    ...createMathEnvironment({ ...verifierOf(verifier, grader), return_extracted_answer }),
    ...(!isPureVerifier(verifier) && graderHealth(grader)),
  })),
});
