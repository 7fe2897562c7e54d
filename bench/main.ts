import { copyFile, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { parseArgs } from 'node:util';
import { findTemporalCli } from '../src/local/temporal-cli.js';
import { bundlePath } from '../src/workers/build-bundle.js';
import type { Contender } from './contenders.js';
import { startBare, startDurable, startEmpty } from './contenders.js';
import { measure } from './measure.js';
import type { Measured, SlicedRuns } from './report.js';
import { machine, runsTable, slicesTable, targetLine, targetsOf } from './report.js';
import type { Scenario } from './scenario.js';
import { SCENARIOS } from './scenario.js';
import { measureSlices } from './slices.js';
import type { Stack } from './stack.js';
import { PROJECT_ROOT, startStack } from './stack.js';

const USAGE = `npm run bench -- [--quick] [--only TEXT] [--rounds N] [--write]

  --quick      one round of the scenarios with 64 rollouts at once
  --only TEXT  scenarios whose name contains TEXT; "slices" are the slice sizes
  --rounds N   rounds of each scenario (default 3)
  --write      puts the tables into bench/README.md`;

const SLICES = 'slices';
const WARM_UP_ROLLOUTS = 32;

interface Options {
  quick: boolean;
  only: string;
  rounds: number;
  write: boolean;
}

function readOptions(): Options {
  const { values } = parseArgs({
    options: {
      quick: { type: 'boolean', default: false },
      only: { type: 'string', default: '' },
      rounds: { type: 'string' },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(USAGE);
    process.exit(0);
  }
  const rounds = Number(values.rounds ?? (values.quick ? 1 : 3));
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error(USAGE);
  return { ...values, rounds };
}

const say = (line: string): void => {
  console.log(line);
};

/** Contenders take turns: durable, empty, bare, durable, empty, bare, … */
async function measureScenario(
  scenario: Scenario,
  { stack, rounds }: { stack: Stack; rounds: number },
): Promise<Measured> {
  const contenders: Contender[] = [];
  try {
    contenders.push(await startDurable(stack, scenario));
    contenders.push(await startEmpty(stack, scenario));
    contenders.push(await startBare(stack));
    // Compiled code and open connections: a worker lives long.
    await Promise.all(contenders.map((contender) => contender.play(WARM_UP_ROLLOUTS)));
    const measured: Measured = { scenario, rounds: [] };
    for (let round = 1; round <= rounds; round++) {
      const runs: Partial<Measured['rounds'][number]> = {};
      for (const contender of contenders) {
        const { rollouts } = scenario;
        const run = await measure(contender, {
          rollouts,
          play: () => contender.play(rollouts),
        });
        runs[contender.name] = run;
        say(`  round ${round}, ${contender.name}: ${run.wall_s.toFixed(1)} s`);
      }
      measured.rounds.push(runs as Measured['rounds'][number]);
    }
    return measured;
  } finally {
    await Promise.all(contenders.map((contender) => contender.stop()));
  }
}

async function withStack<T>(
  scenario: Scenario,
  { cliPath, run }: { cliPath: string; run: (stack: Stack) => Promise<T> },
): Promise<T> {
  say(scenario.name);
  const folder = path.join(PROJECT_ROOT, '.rollouts', `bench-${process.pid}`);
  const stack = await startStack(scenario, { cliPath, folder });
  try {
    return await run(stack);
  } finally {
    await stack.stop();
  }
}

/** Between the two markers of bench/README.md. */
async function writeReport(report: string): Promise<void> {
  const file = path.join(PROJECT_ROOT, 'bench', 'README.md');
  const text = await readFile(file, 'utf8');
  const [begin, end] = ['<!-- measured -->', '<!-- /measured -->'];
  const [from, to] = [text.indexOf(begin), text.indexOf(end)];
  if (from === -1 || to < from) throw new Error(`${file} lacks the markers ${begin} and ${end}`);
  const before = text.slice(0, from + begin.length);
  await writeFile(file, `${before}\n\n${report}\n\n${text.slice(to)}`);
}

async function main(): Promise<void> {
  const { quick, only, rounds, write } = readOptions();
  const { path: cliPath, version } = await findTemporalCli({
    env: process.env,
    projectRoot: PROJECT_ROOT,
    say,
  });
  // The bench is compiled beside the project; the workflows are those of the build.
  await copyFile(path.join(PROJECT_ROOT, 'dist', 'workflow-bundle.js'), bundlePath);
  const began = performance.now();
  const wanted = SCENARIOS.filter(({ name, rollouts, turn_ms }) =>
    quick ? rollouts === 64 && turn_ms === 0 && name.includes(only) : name.includes(only),
  );
  const measured: Measured[] = [];
  for (const scenario of wanted) {
    const run = (stack: Stack): Promise<Measured> => measureScenario(scenario, { stack, rounds });
    measured.push(await withStack(scenario, { cliPath, run }));
  }
  const sliced: SlicedRuns[] = [];
  if (!quick && SLICES.includes(only)) {
    const scenario: Scenario = { name: SLICES, rollouts: 512, turn_slice: '2s', turn_ms: 0 };
    const run = (stack: Stack): Promise<SlicedRuns[]> =>
      measureSlices(stack, { rollouts: scenario.rollouts, rounds, say });
    sliced.push(...(await withStack(scenario, { cliPath, run })));
  }
  const minutes = ((performance.now() - began) / 60_000).toFixed(0);
  const lines = measured.flatMap((one) =>
    targetsOf(one).map((target) => targetLine(target, one.scenario)),
  );
  const report = [
    `${machine()}, Temporal CLI ${version}; medians of ${rounds} interleaved rounds; the whole took ${minutes} minutes.`,
    runsTable(measured),
    ['```text', ...lines, '```'].join('\n'),
    ...(sliced.length > 0 ? [slicesTable(sliced)] : []),
  ].join('\n\n');
  say(`\n${report}`);
  if (write) await writeReport(report);
}

await main();
