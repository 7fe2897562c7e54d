import { parseArgs } from 'node:util';
import { heartbeatFor } from '../../model/workflow-safe/heartbeats.js';
import { toMs, durationProblem } from '../../model/workflow-safe/durations.js';
import { UsageError } from '../../platform/command.js';
import { heartbeatMs } from '../../workers/worker-settings.js';
import { planMemory } from '../../workers/memory.js';
import { FLAG, TEXT, integerOf } from '../arguments.js';
import { FIGURES } from './figures.js';
import type { Figures, Row, Workload } from './plan.js';
import { leastMemory, planOf } from './plan.js';
import { COMMANDS_OF, planTable } from './plan-table.js';

/** What so many rollouts need of Temporal, the store and workers. */
export function planCommand(args: string[]): Promise<number> {
  const { values } = parseArgs({
    args,
    options: {
      rollouts: TEXT,
      turns: TEXT,
      'turn-time': TEXT,
      tokens: TEXT,
      'turn-slice': { type: 'string', default: '10m' },
      json: FLAG,
    },
  });
  const asked: Workload = {
    rollouts: countOf('--rollouts', values.rollouts),
    turns: countOf('--turns', values.turns),
    turn_s: secondsOf('--turn-time', values['turn-time']),
    tokens: countOf('--tokens', values.tokens),
    slice_s: secondsOf('--turn-slice', values['turn-slice']),
  };
  const rows = planned(asked, FIGURES);
  if (values.json) {
    const measured = rows.map(({ by, ...row }) => ({ ...row, command: by && COMMANDS_OF[by] }));
    console.log(JSON.stringify({ asked, where: FIGURES.where, rows: measured }, null, 2));
  } else for (const line of planTable(rows, FIGURES)) console.log(line);
  return Promise.resolve(0);
}

/** The heartbeat timeout of the measured rollouts. */
const MEASURED_WITH_MS = 60_000;
/** Where deaths are seen, and nobody has set it. */
const USUAL = { heartbeat_timeout_ms: heartbeatMs({ worker: { heartbeat_timeout: null } }, true) };

/** With the slots that a worker has at its memory. */
export const planned = (asked: Workload, figures: Figures): Row[] =>
  planOf(asked, {
    figures,
    memoryFor: (rollouts) =>
      leastMemory(rollouts, (memory_bytes) =>
        planMemory({ memory_bytes, max_generations: rollouts, queues: 1 }),
      ),
    beatAs: (rollouts) =>
      (rollouts * MEASURED_WITH_MS) / heartbeatFor({ ...USUAL, heartbeat_grows: true }, rollouts),
  });

function given(option: string, { text, example }: { text: string | undefined; example: string }) {
  if (text !== undefined) return text;
  throw new UsageError(`${option}: expected it, such as ${option} ${example}, got nothing`);
}

const countOf = (option: string, text: string | undefined): number =>
  integerOf(option, { text: given(option, { text, example: '20' }), least: 1 });

function secondsOf(option: string, text: string | undefined): number {
  const value = given(option, { text, example: '6s' });
  const problem = durationProblem(value);
  if (problem !== null) throw new UsageError(`${option}: ${problem}`);
  return toMs(value) / 1000;
}
