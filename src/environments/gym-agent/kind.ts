import { defineKind } from '../kind.js';
import { createGymAgent } from './environment.js';
import { GymAgentSettings } from './settings.js';

export const gymAgent = defineKind({
  settings: GymAgentSettings,
  answers: () => 'a service',
  roles: [],
  make: createGymAgent,
});
