import { copyFile, readFile, writeFile } from 'node:fs/promises';
import { loadavg } from 'node:os';
import path from 'node:path';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import { bundlePath } from '../../src/workers/build-bundle.js';
import type { Contender } from './contenders.js';
import { START } from './contenders.js';
import { cpuPerTurn, measure, PARTS } from './measure.js';
import { withReport } from './page-text.js';
import type { SizeRun } from './size.js';
import { SIZE, measureSize } from './size.js';
import { sizeReport } from './size-report.js';
import type { Measured, SlicedRuns } from './report.js';
import { measuredOn, reportsOf, slicesTable } from './report.js';
import type { Place, Scenario } from './scenario.js';
import { peersPython } from './peers/asyncio-loop.js';
import { AT_ONCE, PEERS, ROUNDS, SCENARIOS, SLICED, WARM_UP, isSlow } from './scenario.js';
import { measureSlices } from './slices.js';
import type { Stack } from '../bed/stack.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import { readOptions, wrongUsage } from '../options.js';
import { setPace, startPuzzles } from './puzzles.js';

const USAGE = `npm run bench -- [--quick] [--only TEXT] [--rounds N] [--large] [--write]
npm run bench -- --size [--rollouts N] [--memory SIZE] [--json FILE] [--write]

  --quick      one round of the two scenarios with 64 rollouts at once
  --only TEXT  only scenarios whose name contains TEXT: "at once", "slow" (seven minutes), "observations"; the slice sizes are called "sizes"
  --rounds N   rounds of each scenario, also of one with slow turns
  --large      slice sizes with four times as many rollouts, one round
  --write      puts each table into its place of lab/bench/TABLES.md; others stay

  --size         one batch of many rollouts on a server with a database file, as npm start has
  --rollouts N   another size, a multiple of its repeats
  --memory SIZE  another memory of the worker
  --json FILE    everything that was measured`;

function optionsOf() {
  const options = readOptions(
    { usage: USAGE },
    {
      quick: false,
      only: '',
      rounds: 0,
      large: false,
      write: false,
      size: false,
      rollouts: SIZE.rollouts,
      memory: SIZE.memory,
      json: null,
    },
  );
  const { quick, rounds, rollouts } = options;
  if (rollouts === 0 || rollouts % SIZE.repeats !== 0)
    wrongUsage(USAGE, `--rollouts: expected a multiple of ${SIZE.repeats}, got ${rollouts}`);
  return { ...options, rounds: quick ? 1 : rounds };
}

/** `rounds` 0: each scenario's own. */
type Options = ReturnType<typeof optionsOf>;

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
    for (const name of scenario.contenders) contenders.push(await START[name](stack, scenario));
    const batches = isSlow(scenario) ? 1 : WARM_UP.batches;
    for (let batch = 0; batch < batches; batch++) {
      await Promise.all(contenders.map((contender) => contender.play(WARM_UP.rollouts, AT_ONCE)));
    }
    await setPace(stack, scenario.pace);
    const measured: Measured = { scenario, rounds: [] };
    for (let round = 1; round <= rounds; round++) {
      const runs: Measured['rounds'][number] = {};
      for (const contender of contenders) {
        const { rollouts, turns, pace } = scenario;
        const play = (): Promise<number> => contender.play(rollouts, pace);
        const run = await measure(contender, { rollouts, turns, play });
        runs[contender.name] = run;
        const cpu = PARTS.map((part) => `${part} ${cpuPerTurn(run, [part]).toFixed(2)}`).join(', ');
        say(`  round ${round}, ${contender.name}: ${run.wall_s.toFixed(1)} s, CPU ms/turn ${cpu}`);
      }
      measured.rounds.push(runs);
    }
    return measured;
  } finally {
    await Promise.all(contenders.map((contender) => contender.stop()));
  }
}

async function withStack<T>(
  { name, rollouts }: Pick<Scenario, 'name' | 'rollouts'>,
  { run, in_memory = true }: { run: (stack: Stack) => Promise<T>; in_memory?: boolean },
): Promise<T> {
  say(name);
  const stack = await startPuzzles({ rollouts }, { in_memory });
  try {
    return await run(stack);
  } finally {
    await stack.end();
  }
}

async function measureAll({ quick, only, rounds }: Options): Promise<Measured[]> {
  const wanted = [...SCENARIOS, ...(peersPython() === null ? [] : PEERS)].filter(
    (scenario) =>
      scenario.name.includes(only) && (!quick || (scenario.rollouts === 64 && !isSlow(scenario))),
  );
  const measured: Measured[] = [];
  for (const scenario of wanted) {
    const run = (stack: Stack): Promise<Measured> =>
      measureScenario(scenario, { stack, rounds: rounds || (isSlow(scenario) ? 1 : ROUNDS) });
    measured.push(await withStack(scenario, { run }));
  }
  return measured;
}

async function measureAllSlices({ quick, only, rounds, large }: Options): Promise<SlicedRuns[]> {
  if (quick || !'sizes'.includes(only)) return [];
  const scenario = { name: 'sizes', rollouts: large ? SLICED.large : SLICED.rollouts };
  const run = (stack: Stack): Promise<SlicedRuns[]> =>
    measureSlices(stack, {
      rollouts: scenario.rollouts,
      rounds: rounds || (large ? 1 : ROUNDS),
      say,
    });
  return await withStack(scenario, { run });
}

async function measureLargeBatch({ rollouts, memory, json }: Options): Promise<string> {
  const scenario = { name: `${rollouts} rollouts`, rollouts: rollouts / SIZE.repeats };
  const run = (stack: Stack): Promise<SizeRun> => measureSize(stack, { rollouts, memory, say });
  const measured = await withStack(scenario, { run, in_memory: false });
  if (json !== null) await writeFile(json, `${JSON.stringify(measured, null, 2)}\n`);
  return sizeReport(measured);
}

/** Prints it below its command, and puts it into its place if it is to be written. */
async function publish(table: string, { place, where, write }: Published): Promise<void> {
  const args = process.argv.slice(2).filter((arg) => arg !== '--write');
  const words = args.map((arg) => (/[ ,:]/.test(arg) ? `"${arg}"` : arg));
  const command = ['npm run bench', ...(words.length > 0 ? ['--', ...words] : [])].join(' ');
  const report = `\`${command}\`: ${where}.\n\n${table}`;
  say(`\n${report}`);
  if (!write) return;
  const file = path.join(PROJECT_ROOT, 'lab/bench/TABLES.md');
  await writeFile(file, withReport(await readFile(file, 'utf8'), { name: place, report }));
}

interface Published {
  place: Place | 'slice-sizes' | 'size';
  where: string;
  write: boolean;
}

async function main(): Promise<void> {
  const options = optionsOf();
  const env = process.env;
  const cli = await findTemporalCli({ env, projectRoot: PROJECT_ROOT, say });
  // The bench is compiled beside the project; the workflows come from the build.
  await copyFile(path.join(PROJECT_ROOT, 'dist', 'src', 'workflow-bundle.js'), bundlePath);
  const where = measuredOn(loadavg()[0] ?? 0, `, Temporal CLI ${cli.version}`);
  const { write } = options;
  if (options.size) {
    await publish(await measureLargeBatch(options), { place: 'size', where, write });
    return;
  }
  const measured = await measureAll(options);
  const sliced = await measureAllSlices(options);
  for (const [place, table] of reportsOf(measured)) await publish(table, { place, where, write });
  if (sliced.length > 0) await publish(slicesTable(sliced), { place: 'slice-sizes', where, write });
}

await main();
