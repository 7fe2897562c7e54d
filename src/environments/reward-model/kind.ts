import { secretIn } from '../http/token.js';
import { defineKind, inJavaScript } from '../kind.js';
import { createRewardModel, RewardModelSettings } from './environment.js';

export const rewardModel = defineKind({
  settings: RewardModelSettings,
  answers: () => 'a service',
  roles: ['environment'],
  make: inJavaScript((settings: RewardModelSettings, context) => {
    const { name, env, answers } = context;
    const token = secretIn(settings.api_key_env, { setting: 'api_key_env', name, env });
    return createRewardModel(settings, { token, answers });
  }),
});
