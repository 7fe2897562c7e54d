import type { Figures } from './plan.js';

/** Written by `node --import tsx bench/many/main.ts --figures`. */
export const FIGURES: Figures = {
  where: '2 cores, Node.js 20, Temporal CLI 1.8.2',
  temporal: {
    cpu_ms_rollout: 46.9,
    cpu_ms_rollout_s: 0.188,
    cpu_ms_turn: 3.22,
    requests_rollout: 6.86,
    heartbeats_rollout_s: 0.0488,
    actions_rollout: 4.16,
    events_rollout: 27.7,
    history_bytes_rollout: 5900,
    database_bytes_rollout: 49100,
  },
  worker: {
    cpu_ms_rollout: 29,
    cpu_ms_rollout_s: 0.314,
    cpu_ms_turn: 5.03,
    cpu_ms_token: 0.0104,
    resident_bytes_idle: 211000000,
    resident_bytes_rollout: 897000,
    files_idle: 34,
    files_rollout: 2.12,
  },
  journal: {
    bytes_rollout: 6010,
    bytes_turn: 1500,
    bytes_flush: 20,
    bytes_token: 21,
  },
  postgres: {
    cpu_ms_turn: 2.69,
    wal_bytes_turn: 9930,
    turn_s: 3,
    tokens: 85,
  },
};
