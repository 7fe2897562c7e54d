import type { Part } from './measure.js';
import { PARTS, median } from './measure.js';
import { table } from './report.js';
import type { Moment, SizeRun } from './size.js';
import { SIZE } from './size.js';

/** The rollouts that ended between two moments. */
interface Window {
  rollouts: number;
  to: number;
  wall_s: number;
  cpu_ms: Record<Part, number>;
  resident_mb: Record<Part, number>;
}

function windowsOf(moments: readonly Moment[]): Window[] {
  return moments.slice(1).map((moment, i) => {
    const before = moments[i] ?? moment;
    const cpu = (part: Part): number => moment.cpu_ms[part] - before.cpu_ms[part];
    return {
      rollouts: moment.ended - before.ended,
      to: moment.ended,
      wall_s: moment.wall_s - before.wall_s,
      cpu_ms: { server: cpu('server'), worker: cpu('worker'), simulator: cpu('simulator') },
      resident_mb: moment.resident_mb,
    };
  });
}

/** CPU per rollout may not grow with the batch: the last thousand rollouts are compared with the second thousand. */
export const GROWTH_LIMIT = 1.15;

/** Server and worker; null if the batch is too small to tell. */
export function growthOf({ moments }: Pick<SizeRun, 'moments'>): number | null {
  const whole = windowsOf(moments).filter(({ rollouts }) => rollouts > SIZE.window / 2);
  const [, second] = whole;
  const last = whole.at(-1);
  if (second === undefined || last === undefined || last === second) return null;
  return cpuPerRollout(last) / cpuPerRollout(second);
}

const cpuPerRollout = ({ cpu_ms, rollouts }: Window): number =>
  (cpu_ms.server + cpu_ms.worker) / rollouts;

export const sizeReport = (run: SizeRun): string =>
  [windowsTable(run), `\`\`\`text\n${[...facts(run), verdict(run)].join('\n')}\n\`\`\``].join(
    '\n\n',
  );

function windowsTable({ moments }: SizeRun): string {
  const rows = windowsOf(moments).map((window) => {
    const { rollouts, to, wall_s, cpu_ms, resident_mb } = window;
    const closing = rollouts === 0;
    return [
      closing ? 'closing' : String(to),
      wall_s.toFixed(1),
      closing ? '-' : (rollouts / wall_s).toFixed(1),
      ...PARTS.map((part) => (closing ? '-' : (cpu_ms[part] / rollouts).toFixed(1))),
      closing ? '-' : cpuPerRollout(window).toFixed(1),
      ...PARTS.map((part) => resident_mb[part].toFixed(0)),
    ];
  });
  return table(
    [
      'rollouts ended',
      'wall s',
      'rollouts/s',
      ...PARTS.map((part) => `CPU ms/rollout ${part}`),
      'server and worker',
      ...PARTS.map((part) => `MB ${part}`),
    ],
    rows,
  );
}

function facts({
  rollouts,
  memory,
  wall_s,
  closing,
  peak_mb,
  moments,
  histories,
  files_mb,
}: SizeRun): string[] {
  const [first] = moments;
  const last = moments.at(-1);
  const cpu = (part: Part): string =>
    (((last?.cpu_ms[part] ?? 0) - (first?.cpu_ms[part] ?? 0)) / rollouts).toFixed(1);
  const history = (of: keyof typeof histories): string =>
    `${of} ${histories[of].events} events, ${histories[of].kb.toFixed(0)} kB (${histories[of].count})`;
  const slices =
    closing.slices_s.length > 0
      ? `slices ${median(closing.slices_s).toFixed(1)} s (median), ${Math.max(...closing.slices_s).toFixed(1)} s (longest), `
      : '';
  return [
    `${rollouts} rollouts x ${SIZE.turns} turns in ${wall_s.toFixed(0)} s: ${(rollouts / wall_s).toFixed(1)} rollouts/s, worker.memory ${memory}`,
    `CPU ms/rollout   ${PARTS.map((part) => `${part} ${cpu(part)}`).join(', ')}`,
    `peak MB          ${PARTS.map((part) => `${part} ${peak_mb[part].toFixed(0)}`).join(', ')} (worker idle: ${first?.resident_mb.worker.toFixed(0)})`,
    `largest history  ${history('batch')}, ${history('slice')}, ${history('rollout')}`,
    `closing          ${slices}batch ${closing.batch_s.toFixed(1)} s`,
    `files MB         database ${files_mb.database.toFixed(0)}, journals ${files_mb.journals.toFixed(0)}, rollouts.jsonl ${files_mb.rollouts.toFixed(0)}`,
  ];
}

function verdict(run: SizeRun): string {
  const growth = growthOf(run);
  if (growth === null) return 'too few rollouts to tell whether CPU per rollout grows';
  const is = growth <= GROWTH_LIMIT ? 'PASS' : 'FAIL';
  return `${is}  CPU/rollout of the last 1,000 <= ${GROWTH_LIMIT} x that of the second 1,000: ${growth.toFixed(2)} x`;
}
