import path from 'node:path';
import { parseArgs } from 'node:util';
import { findTemporalCli } from '../../tools/temporal-cli/find.js';
import { firstFreePort } from '../../src/platform/process/free-port.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { WorkerProcess } from '../bed/worker.js';
import { startWorkerProcess } from '../bed/worker.js';
import { measure, median } from './measure.js';
import type { Run } from './measure.js';
import { requestsOf } from './many/readings.js';
import { table } from './report.js';
import { AT_ONCE, GENERATION, MAX_SEQ_LEN } from './scenario.js';
import type { Stack } from './stack.js';
import { setPace, startStack, workerSettings } from './stack.js';

const USAGE = `node --import tsx lab/bench/beside.ts [--build NAME=FOLDER …] [--rollouts N] [--turns N] [--tokens N] [--rate N] [--rounds N]

  What a rollout costs workers of several checkouts, each built, which play the same batches in turns, beside one server
  and one engine. Processor time of worker and server, and requests to the server, for each rollout.

  --build NAME=FOLDER  default: this one
  --rollouts N         of a batch; default 64
  --turns N            of a rollout; default 1
  --tokens N           of an answer, besides its move; default 8
  --rate N             tokens a second of each answer; default: all at once
  --rounds N           default 6
  --warm N             batches before them; default 12
  --preload FILE       a module that workers load first, such as a profiler`;

function readOptions() {
  const { values } = parseArgs({
    options: {
      build: { type: 'string', multiple: true, default: [`now=${PROJECT_ROOT}`] },
      rollouts: { type: 'string', default: '64' },
      turns: { type: 'string', default: '1' },
      tokens: { type: 'string', default: '8' },
      rate: { type: 'string', default: '0' },
      rounds: { type: 'string', default: '6' },
      warm: { type: 'string', default: '12' },
      preload: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  const numbers = [
    values.rollouts,
    values.turns,
    values.tokens,
    values.rate,
    values.rounds,
    values.warm,
  ].map(Number);
  if (values.help || numbers.some((one) => !Number.isInteger(one))) {
    console.log(USAGE);
    process.exit(values.help ? 0 : 2);
  }
  const [rollouts = 0, turns = 0, tokens = 0, rate = 0, rounds = 0, warm = 0] = numbers;
  const builds = values.build.map((one) => one.split('=', 2) as [string, string]);
  return { builds, rollouts, turns, tokens, rate, rounds, warm, preload: values.preload };
}

const { builds, rollouts, turns, tokens, rate, rounds, warm, preload } = readOptions();

interface Player {
  name: string;
  worker: WorkerProcess;
  play: (rollouts: number) => Promise<number>;
}

async function startPlayer(stack: Stack, [name, build]: [string, string]): Promise<Player> {
  const worker = await startWorkerProcess({
    directory: stack.folder,
    name,
    project_root: path.resolve(build),
    config: workerSettings(stack, { task_queue: name, turn_slice: null }),
    ...(preload !== undefined && {
      env: { NODE_OPTIONS: `--import ${path.resolve(preload)}` },
    }),
  });
  let batches = 0;
  const play = async (limit: number): Promise<number> => {
    const handle = await stack.client.workflow.start('rolloutBatch', {
      workflowId: `${name}-${batches++}`,
      taskQueue: name,
      args: [
        {
          samples: { path: path.basename(stack.samplesFile) },
          limit,
          generation: GENERATION,
          max_seq_len: MAX_SEQ_LEN,
          max_rollout_turns: turns,
        },
      ],
    });
    const { metrics } = (await handle.result()) as { metrics: Record<string, unknown> };
    return Number(metrics['total_turns']);
  };
  return { name, worker, play };
}

interface Taken extends Run {
  requests: Record<string, number>;
}

async function take(
  player: Player,
  { stack, port }: { stack: Stack; port: number },
): Promise<Taken> {
  const before = await requestsOf(port);
  const run = await measure(
    {
      name: 'durable',
      processes: {
        server: stack.server.pid,
        worker: player.worker.pid,
        simulator: stack.simulator.pid,
      },
    },
    { rollouts, turns, play: () => player.play(rollouts) },
  );
  const after = await requestsOf(port);
  const requests = Object.fromEntries(
    Object.keys(after).map((name) => [name, ((after[name] ?? 0) - (before[name] ?? 0)) / rollouts]),
  );
  return { ...run, requests };
}

const say = (line: string): void => {
  console.log(line);
};
const cli = await findTemporalCli({ env: process.env, projectRoot: PROJECT_ROOT, say });
const port = await firstFreePort(0);
const folder = path.join(PROJECT_ROOT, '.rollouts', `beside-${process.pid}`);
const stack = await startStack({ rollouts }, { cliPath: cli.path, folder, metrics_port: port });
const players: Player[] = [];
try {
  for (const build of builds) players.push(await startPlayer(stack, build));
  await setPace(stack, AT_ONCE);
  for (let batch = 0; batch < warm; batch++)
    await Promise.all(players.map(({ play }) => play(rollouts)));
  await setPace(stack, { thinking_tokens: tokens, tokens_per_second: rate, turn_ms: 0 });
  const taken = new Map<string, Taken[]>();
  for (let round = 0; round < rounds; round++)
    for (const player of players) {
      const own = taken.get(player.name) ?? [];
      taken.set(player.name, [...own, await take(player, { stack, port })]);
    }
  const of = (name: string, what: (run: Taken) => number): string =>
    median((taken.get(name) ?? []).map(what)).toFixed(2);
  const names = ['build', 'wall s', 'CPU ms/rollout worker', 'server', 'simulator', 'both'];
  const rows = players.map(({ name }) => [
    name,
    of(name, ({ wall_s }) => wall_s),
    of(name, ({ cpu_ms }) => cpu_ms.worker / rollouts),
    of(name, ({ cpu_ms }) => cpu_ms.server / rollouts),
    of(name, ({ cpu_ms }) => cpu_ms.simulator / rollouts),
    of(name, ({ cpu_ms }) => (cpu_ms.worker + cpu_ms.server) / rollouts),
  ]);
  say(table(names, rows));
  for (const { name } of players) {
    const asked = new Set((taken.get(name) ?? []).flatMap(({ requests }) => Object.keys(requests)));
    const counts = [...asked]
      .map((what) => [what, of(name, ({ requests }) => requests[what] ?? 0)] as const)
      .filter(([, count]) => Number(count) > 0)
      .sort(([, a], [, b]) => Number(b) - Number(a));
    say(`${name}: ${counts.map(([what, count]) => `${what} ${count}`).join(', ')}`);
  }
} finally {
  await Promise.all(players.map(({ worker }) => worker.stop()));
  await stack.stop();
}
