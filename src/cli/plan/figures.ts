import type { Figures } from './plan.js';

/** Written by `node --import tsx bench/many/main.ts --figures`. */
export const FIGURES: Figures = {
  where: '2 cores, Node.js 20, Temporal CLI 1.8.2',
  temporal: {
    cpu_ms_rollout: 50,
    cpu_ms_rollout_s: 0.55,
    cpu_ms_turn: 1,
    requests_rollout: 12,
    heartbeats_rollout_s: 0.3,
    actions_rollout: 3.1,
    events_rollout: 31,
    history_bytes_rollout: 5600,
    database_bytes_rollout: 30000,
  },
  worker: {
    cpu_ms_rollout: 40,
    cpu_ms_rollout_s: 0.17,
    cpu_ms_turn: 5,
    cpu_ms_token: 0.03,
    resident_bytes_idle: 220000000,
    resident_bytes_rollout: 700000,
    files_idle: 40,
    files_rollout: 2.5,
  },
  journal: { bytes_rollout: 3000, bytes_turn: 1500, bytes_flush: 200, bytes_token: 18 },
  postgres: { cpu_ms_turn: 2.69, wal_bytes_turn: 9927, turn_s: 3, tokens: 85 },
};
