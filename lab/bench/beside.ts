import path from 'node:path';
import { firstFreePort } from '../../dev/free-port.js';
import { PROJECT_ROOT } from '../../src/platform/project-root.js';
import type { WorkerProcess } from '../bed/worker.js';
import { readOptions } from '../options.js';
import { measure, median } from './measure.js';
import type { Run } from './measure.js';
import { requestsOf } from './many/readings.js';
import { table } from './report.js';
import { AT_ONCE } from './scenario.js';
import type { Stack } from '../bed/stack.js';
import { resultOf, setPace, startBatch, startPuzzles } from './puzzles.js';

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

const { rollouts, turns, tokens, rate, rounds, warm, preload, ...options } = readOptions(
  { usage: USAGE },
  {
    build: [`now=${PROJECT_ROOT}`],
    rollouts: 64,
    turns: 1,
    tokens: 8,
    rate: 0,
    rounds: 6,
    warm: 12,
    preload: null,
  },
);
const builds = options.build.map((one) => one.split('=', 2) as [string, string]);

interface Player {
  name: string;
  worker: WorkerProcess;
  play: (rollouts: number) => Promise<number>;
}

async function startPlayer(stack: Stack, [name, build]: [string, string]): Promise<Player> {
  const worker = await stack.startWorker({
    task_queue: name,
    project_root: path.resolve(build),
    ...(preload !== null && {
      env: { NODE_OPTIONS: `--import ${path.resolve(preload)}` },
    }),
  });
  let batches = 0;
  const play = async (limit: number): Promise<number> => {
    const handle = await startBatch(stack, {
      id: `${name}-${batches++}`,
      task_queue: name,
      limit,
      max_rollout_turns: turns,
    });
    const { metrics } = await resultOf(stack, handle);
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
        server: stack.ownServer().pid,
        worker: player.worker.pid,
        simulator: stack.simulator().pid,
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
const port = await firstFreePort(0);
const stack = await startPuzzles({ rollouts }, { metrics_port: port });
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
  await stack.end();
}
