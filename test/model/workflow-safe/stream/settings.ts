import type {
  OpenGroup,
  PacingSettings,
} from '../../../../src/model/workflow-safe/stream/state.js';

export const SETTINGS: PacingSettings = {
  groups_per_step: 2,
  max_lag: 1,
  versions_per_step: 1,
  when_stale: 'wait',
  num_repeats: 4,
  max_in_flight: 256,
  samples: 10,
  epochs: null,
};

/** Groups from 0 on, by state and birth version: `'complete 7'`. */
export const groupsOf = (...groups: readonly string[]): OpenGroup[] =>
  groups.map((text, group) => {
    const [state, born] = text.split(' ');
    const isComplete = state === 'complete';
    return {
      group,
      born: Number(born),
      state: isComplete ? 'complete' : 'running',
      in_flight: isComplete ? 0 : 4,
    };
  });
