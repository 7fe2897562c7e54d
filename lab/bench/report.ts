import { availableParallelism } from 'node:os';
import type { Part, Run } from './measure.js';
import { PARTS, cpuPerTurn, median } from './measure.js';
import type { ContenderName, Place, Scenario } from './scenario.js';
import { PLACES, isSlow } from './scenario.js';

/** The contenders' runs of one scenario, round by round. */
export interface Measured {
  scenario: Scenario;
  /** Contenders of the scenario. */
  rounds: Partial<Record<ContenderName, Run>>[];
}

/** Median over the rounds of a contender that the scenario has. */
const medianOf = (
  rounds: Measured['rounds'],
  { name, value }: { name: ContenderName; value: (run: Run) => number },
): number => median(rounds.flatMap(({ [name]: run }) => (run === undefined ? [] : [value(run)])));

interface Target {
  text: string;
  /** At most 1 is within the target. */
  ratio: number;
}

/** Markdown. The first column is text, the others are numbers. */
export const table = (head: readonly string[], rows: readonly string[][]): string =>
  [head, head.map((_, i) => (i === 0 ? '---' : '---:')), ...rows]
    .map((cells) => `| ${cells.join(' | ')} |`)
    .join('\n');

const BOTH: readonly Part[] = ['server', 'worker'];
const SHOWN: readonly (readonly Part[])[] = [['server'], ['worker'], BOTH];

/** Medians over the rounds. `-` for processes that a run does not involve. */
function runsTable(measured: readonly Measured[]): string {
  const rows = measured.flatMap(({ scenario, rounds }) =>
    scenario.contenders.map((name) => {
      const of = (value: (run: Run) => number): number => medianOf(rounds, { name, value });
      return [
        rounds.length === 1 ? `${scenario.name} (1 round)` : scenario.name,
        name,
        of(({ wall_s }) => wall_s).toFixed(1),
        of(({ rollouts, wall_s }) => rollouts / wall_s).toFixed(1),
        of(({ turns, wall_s }) => turns / wall_s).toFixed(0),
        ...[...SHOWN, ['simulator'] as const].map((parts) =>
          orDash(of((run) => cpuPerTurn(run, parts)).toFixed(2)),
        ),
        ...PARTS.map((part) => orDash(of(({ peak_mb }) => peak_mb[part]).toFixed(0))),
      ];
    }),
  );
  return table(
    [
      'scenario',
      'contender',
      'wall s',
      'rollouts/s',
      'turns/s',
      ...['server', 'worker', 'both', 'simulator'].map((part) => `CPU ms/turn ${part}`),
      ...PARTS.map((part) => `peak MB ${part}`),
    ],
    rows,
  );
}

const orDash = (text: string): string => (Number(text) === 0 ? '-' : text);

/** Compares medians. Contenders take turns in every round, so that other load affects all of them. */
function targetsOf(measured: Measured): Target[] {
  const { scenario, rounds } = measured;
  if (scenario.contenders.includes('asyncio loop')) return [];
  if (isSlow(scenario)) return slowTargets(measured);
  return [
    scenario.contenders.includes('bare observations') ? chatTarget(rounds) : cpuTarget(rounds),
  ];
}

/** CPU of a turn of 3 s, in server and worker, and of an answer of 1,500 tokens in the server. */
const MOST_MS = { both: 13, server: 6 };

function slowTargets({ scenario, rounds }: Measured): Target[] {
  const of = (value: (run: Run) => number) => (name: ContenderName) =>
    medianOf(rounds, { name, value });
  const wall = of(({ wall_s }) => wall_s);
  const worker = of((run) => cpuPerTurn(run, ['worker']));
  const most = (parts: readonly Part[], ms: number): Target => {
    const spent = of((run) => cpuPerTurn(run, parts))('durable');
    return {
      text: `CPU/turn(durable) of ${parts.join(' and ')} <= ${ms} ms: ${spent.toFixed(1)} ms`,
      ratio: spent / ms,
    };
  };
  const beside = (what: string, { value, limit }: Beside): Target => {
    const ratio = value('durable') / value('bare');
    return {
      text: `${what}(durable) <= ${limit} x ${what}(bare): ${ratio.toFixed(3)} x`,
      ratio: ratio / limit,
    };
  };
  return scenario.contenders.includes('empty')
    ? [most(BOTH, MOST_MS.both), beside('wall', { value: wall, limit: 1.05 })]
    : [
        beside('worker CPU/turn', { value: worker, limit: 1.3 }),
        most(['server'], MOST_MS.server),
        beside('wall', { value: wall, limit: 1.05 }),
      ];
}

interface Beside {
  value: (name: ContenderName) => number;
  limit: number;
}

/** Of Temporal's server and the worker. The simulator has the place of a GPU, and counts nowhere. */
const cpuOf =
  (rounds: Measured['rounds']) =>
  (name: ContenderName): number =>
    medianOf(rounds, { name, value: (run) => cpuPerTurn(run, BOTH) });

function cpuTarget(rounds: Measured['rounds']): Target {
  const of = cpuOf(rounds);
  const [durable, empty, bare] = [of('durable'), of('empty'), of('bare')];
  const limit = empty + 1.5 * bare;
  const ratio = durable / limit;
  return {
    text:
      `CPU/turn(durable) <= CPU/turn(empty) + 1.5 x CPU/turn(bare): ` +
      `${durable.toFixed(2)} against ${empty.toFixed(2)} + 1.5 x ${bare.toFixed(2)} = ${limit.toFixed(2)} ms, ` +
      `${ratio.toFixed(2)} x`,
    ratio,
  };
}

/** The cost of framing an observation as the chat template does. */
function chatTarget(rounds: Measured['rounds']): Target {
  const of = cpuOf(rounds);
  const [chat, bare] = [of('durable'), of('bare observations')];
  return {
    text:
      `CPU/turn(durable) <= 1.05 x CPU/turn(bare observations): ` +
      `${chat.toFixed(2)} against ${bare.toFixed(2)} ms, ${(chat / bare).toFixed(3)} x`,
    ratio: chat / bare / 1.05,
  };
}

const targetLine = ({ text, ratio }: Target, { name }: Scenario): string =>
  `${ratio <= 1 ? 'PASS' : 'FAIL'}  ${name}: ${text}`;

/** A table for each place, and the bounds of its scenarios. */
export function reportsOf(measured: readonly Measured[]): [Place, string][] {
  return PLACES.flatMap((place) => {
    const here = measured.filter(({ scenario }) => scenario.place === place);
    if (here.length === 0) return [];
    const targets = here.flatMap((one) =>
      targetsOf(one).map((target) => targetLine(target, one.scenario)),
    );
    const bounds = `\`\`\`text\nbounds, CPU of server and worker\n${targets.join('\n')}\n\`\`\``;
    return [[place, [runsTable(here), ...(targets.length > 0 ? [bounds] : [])].join('\n\n')]];
  });
}

/** A number of rollouts with one slice size. */
export interface SlicedRuns {
  rollouts: number;
  size: number;
  runs: Run[];
}

export function slicesTable(measured: readonly SlicedRuns[]): string {
  const rows = measured.map(({ rollouts, size, runs }) => {
    const of = (value: (run: Run) => number): string => median(runs.map(value)).toFixed(1);
    return [
      String(rollouts),
      String(size),
      String(Math.ceil(rollouts / size)),
      of(({ wall_s }) => wall_s),
      of(({ wall_s }) => rollouts / wall_s),
      of(({ turns, wall_s }) => turns / wall_s),
      of(({ cpu_ms }) => cpu_ms.server / rollouts),
      of(({ cpu_ms }) => cpu_ms.worker / rollouts),
      of(({ cpu_ms }) => (cpu_ms.server + cpu_ms.worker) / rollouts),
    ];
  });
  return table(
    [
      'rollouts',
      'rollouts a slice',
      'slices',
      'wall s',
      'rollouts/s',
      'turns/s',
      'CPU ms/rollout server',
      'CPU ms/rollout worker',
      'both',
    ],
    rows,
  );
}

export const machine = (): string =>
  `${availableParallelism()} cores, Node.js ${process.versions.node.split('.')[0] ?? ''}`;

/** What stands beside a table: when and where it was measured. `load`: the load average before it. */
export const measuredOn = (load: number, more = ''): string =>
  `${new Date().toISOString().slice(0, 10)}, ${machine()}${more}, load average before it ${load.toFixed(1)}`;
