import { tokenOf } from '../http/token.js';
import { defineKind } from '../kind.js';
import { createGymnasium, GymnasiumSettings } from './environment.js';

export const gymnasium = defineKind({
  settings: GymnasiumSettings,
  answers: () => 'a service',
  roles: ['user'],
  make: (settings, context) =>
    createGymnasium(settings, { ...context, token: tokenOf(settings, context) }),
});
