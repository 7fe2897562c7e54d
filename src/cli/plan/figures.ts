/** Written by `node --import tsx lab/bench/many/main.ts --figures`. */
export const FIGURES = {
  where: '2 cores, Node.js 20, Temporal CLI 1.8.2',
  temporal: {
    cpu_ms_rollout: 55.2,
    cpu_ms_rollout_s: 0.15,
    cpu_ms_turn: 0.285,
    requests_rollout: 7.03,
    heartbeats_rollout_s: 0.0566,
    actions_rollout: 4.14,
    events_rollout: 28.4,
    history_bytes_rollout: 6030,
    database_bytes_rollout: 49600,
  },
  worker: {
    cpu_ms_rollout: 45.2,
    cpu_ms_rollout_s: 0.164,
    cpu_ms_turn: 2.76,
    cpu_ms_token: 0.00847,
    resident_bytes_idle: 215000000,
    resident_bytes_rollout: 966000,
    files_idle: 34,
    files_rollout: 2.43,
  },
  journal: {
    bytes_rollout: 6010,
    bytes_turn: 1500,
    bytes_flush: 47.2,
    bytes_token: 19.8,
  },
  postgres: {
    cpu_ms_turn: 2.69,
    wal_bytes_turn: 9930,
    turn_s: 3,
    tokens: 85,
  },
};
