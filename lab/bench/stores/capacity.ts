import { table } from '../report.js';
import type { TurnCost } from './turns.js';

/**
 * How many rollouts in flight a process can serve if each plays a turn in this many seconds: derived from the cost of a
 * turn, not measured.
 */
const SIZES = [1000, 8000, 65_000];
const TURN_S = 3;

export function capacityTable({ worker, postgres, temporal, wal_bytes }: TurnCost): string {
  const head = [
    'rollouts in flight',
    'turns/s',
    'worker cores',
    'PostgreSQL cores',
    'Temporal cores',
    'WAL MB/s',
  ];
  const rows = SIZES.map((rollouts) => {
    const turns = rollouts / TURN_S;
    const cores = (ms: number): string => ((ms * turns) / 1000).toFixed(1);
    const wal = ((wal_bytes * turns) / 1e6).toFixed(1);
    return [
      String(rollouts),
      turns.toFixed(0),
      cores(worker),
      cores(postgres),
      cores(temporal),
      wal,
    ];
  });
  return `Derived, not measured: turns a second times what a turn of ${TURN_S} s cost above. Temporal is the dev server, in memory.\n\n${table(head, rows)}`;
}
