import { table } from '../report.js';
import type { ManyRun, Phase } from './phases.js';
import { costOf } from './phases.js';
import type { PerPart } from './readings.js';

/** What a phase's count is. */
const UNITS: Readonly<Record<Phase['name'], string>> = {
  starting: 'rollout',
  waiting: 'rollout and second',
  'first turns': 'turn',
  playing: 'turn',
  ending: 'rollout',
};

const PARTS = ['server', 'workers', 'simulator'] as const;

/** One phase, as soon as it has passed. */
export function phaseLine(phase: Phase): string {
  const { wall_s, cpu_ms, requests_s, heartbeats_s } = costOf(phase);
  const cpu = PARTS.map((part) => `${part} ${number(cpu_ms[part], 2)}`).join(', ');
  return `${phase.name}: ${number(wall_s, 0)} s; CPU ms a ${UNITS[phase.name]}: ${cpu}; requests/s ${number(requests_s)}, of them heartbeats ${number(heartbeats_s)}; MB ${PARTS.map((part) => `${part} ${number(phase.after.resident_mb[part], 0)}`).join(', ')}`;
}

const number = (value: number, digits = 1): string => value.toFixed(digits);

export function manyReport(run: ManyRun): string {
  const phases = run.phases.map((phase) => {
    const { wall_s, cpu_ms, requests_s, heartbeats_s } = costOf(phase);
    const { after, loop } = phase;
    return [
      `${phase.name}, a ${UNITS[phase.name]}`,
      number(wall_s),
      String(Math.round(phase.count)),
      ...PARTS.map((part) => number(cpu_ms[part], 2)),
      number(requests_s),
      number(heartbeats_s),
      [loop.p50_ms, loop.p99_ms, loop.max_ms].map((ms) => number(ms, 0)).join(', '),
      ...PARTS.map((part) => number(after.resident_mb[part], 0)),
      ...PARTS.map((part) => String(after.open_files[part])),
      number(loop.heap_mb, 0),
      String(loop.timers),
    ];
  });
  const head = [
    'phase',
    's',
    'of them',
    ...PARTS.map((part) => `CPU ms ${part}`),
    'requests/s',
    'heartbeats/s',
    'loop ms p50, p99, max',
    ...PARTS.map((part) => `MB ${part}`),
    ...PARTS.map((part) => `files ${part}`),
    'heap MB',
    'timers',
  ];
  return `${table(head, phases)}\n\n${facts(run)}`;
}

function facts(run: ManyRun): string {
  const { rollouts, idle, phases, histories, journals, turns, database_mb } = run;
  const waiting = phases.find(({ name }) => name === 'waiting')?.after ?? idle;
  const kib = (part: keyof PerPart): string =>
    number(((waiting.resident_mb[part] - idle.resident_mb[part]) * 1024) / rollouts, 0);
  const files = number((waiting.open_files.workers - idle.open_files.workers) / rollouts, 2);
  return [
    '```text',
    `${rollouts} rollouts of ${turns} turns of ${run.turn_ms / 1000} s${run.tokens === null ? '' : ` and ${run.tokens} tokens`}, workers ${run.workers}, memory ${run.memory}, slices ${run.turn_slice}`,
    `KiB a rollout in flight  ${PARTS.map((part) => `${part} ${kib(part)}`).join(', ')}; open files of a worker ${files}`,
    `history of a rollout     ${histories.rollout.events} events, ${number(histories.rollout.kb)} kB; slice ${histories.slice.events} events, ${number(histories.slice.kb)} kB; batch ${histories.batch.events}`,
    `journals                 ${number((journals.of_rollouts + journals.of_turns + journals.of_flushes) / 1e3 / journals.rollouts)} kB a rollout; closing the batch ${number(run.closing_s)} s`,
    `database                 ${number((database_mb * 1e3) / rollouts)} kB a rollout`,
    `requests of a rollout    ${countsLine(run, 'requests')}`,
    `actions of a rollout     ${countsLine(run, 'actions')}`,
    '```',
  ].join('\n');
}

function countsLine({ idle, phases, rollouts }: ManyRun, what: 'requests' | 'actions'): string {
  const after = (phases.at(-1)?.after ?? idle)[what];
  return Object.keys(after)
    .map((name) => [name, (after[name] ?? 0) - (idle[what][name] ?? 0)] as const)
    .filter(([, count]) => count > rollouts / 20)
    .sort(([, a], [, b]) => b - a)
    .map(([name, count]) => `${name} ${number(count / rollouts, 2)}`)
    .join(', ');
}
