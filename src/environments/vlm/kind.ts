import { defineKind, inJavaScript } from '../kind.js';
import { graderHealth } from '../math/grader-pool.js';
import { createVlmEnvironment } from './environment.js';
import { needsGrader, VlmSettings } from './settings.js';

const asksGrader = ({ reward_functions }: VlmSettings): boolean =>
  reward_functions.some(needsGrader);

export const vlm = defineKind({
  settings: VlmSettings,
  answers: (settings) => (asksGrader(settings) ? 'on this machine' : 'in process'),
  roles: ['environment'],
  make: inJavaScript((settings: VlmSettings, { grader }) => ({
    ...createVlmEnvironment(settings, grader),
    ...(asksGrader(settings) && graderHealth(grader)),
  })),
});
