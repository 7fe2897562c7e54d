import { heartbeatFor } from '../../model/workflow-safe/heartbeats.js';
import { toMs, durationProblem } from '../../model/workflow-safe/durations.js';
import { UsageError } from '../../platform/command.js';
import { heartbeatMs } from '../../workers/worker-settings.js';
import { planMemory } from '../../workers/memory.js';
import { FLAG, TEXT, integerOf, optionsIn } from '../../platform/arguments.js';
import { FIGURES } from './figures.js';
import type { Figures, Row, Workload, MeasuredBy } from './plan.js';
import { leastMemory, planOf } from './plan.js';
import { inColumns } from '../../client/text-line.js';

export function planCommand(args: string[]): Promise<number> {
  const values = optionsIn(args, {
    rollouts: TEXT,
    turns: TEXT,
    'turn-time': TEXT,
    tokens: TEXT,
    'turn-slice': { type: 'string', default: '10m' },
    json: FLAG,
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
  throw new UsageError(`${option}: required, such as ${option} ${example}`);
}

const countOf = (option: string, text: string | undefined): number =>
  integerOf(option, { text: given(option, { text, example: '20' }), least: 1 });

function secondsOf(option: string, text: string | undefined): number {
  const value = given(option, { text, example: '6s' });
  const problem = durationProblem(value);
  if (problem !== null) throw new UsageError(`${option}: ${problem}`);
  return toMs(value) / 1000;
}

export const COMMANDS_OF: Readonly<Record<Exclude<MeasuredBy, null>, string>> = {
  many: 'node --import tsx lab/bench/many/main.ts --figures',
  'stores-turns': 'npm run bench:page -- stores-turns',
};

export function planTable(rows: readonly Row[], { where }: { where: string }): string[] {
  const lines = inColumns(
    rows.map(({ part, what, value, unit }, i) => [
      part === rows[i - 1]?.part ? '' : part,
      what,
      amount(value, unit),
    ]),
    (at) => at === 2,
  );
  const { many, 'stores-turns': postgres } = COMMANDS_OF;
  return [
    ...lines.map((line) => line.trimEnd()),
    '',
    `It multiplies figures that were measured with ${where}. To measure them again:`,
    `  ${many}`,
    `  ${postgres}  (PostgreSQL)`,
  ];
}

const BYTES = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** Three digits: nobody measures more. */
function amount(value: number, unit: string): string {
  if (!unit.startsWith('bytes'))
    return `${short(value)}${unit === '' || unit.startsWith('/') ? unit : ` ${unit}`}`;
  const power = Math.max(0, Math.min(BYTES.length - 1, Math.floor(Math.log10(value || 1) / 3)));
  return `${short(value / 1000 ** power)} ${BYTES[power] ?? ''}${unit.slice('bytes'.length)}`;
}

function short(value: number): string {
  if (value >= 1000) return Math.round(Number(value.toPrecision(3))).toLocaleString('en-US');
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(3)));
}
