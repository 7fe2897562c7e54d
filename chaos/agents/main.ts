import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { isRunning } from '../../test/harness/process-tree.js';
import { requestLogOf } from '../../test/harness/simulator-process.js';
import { followLog } from '../log-follower.js';
import { linesOf } from '../play-durable.js';
import { streamsOf } from '../request-streams.js';
import type { AgentsBed } from './bed.js';
import { startAgentsBed } from './bed.js';
import { untilEnded } from './ended.js';
import type { Heard } from './heard.js';
import { readHeard } from './heard.js';
import { judge } from './judge.js';
import type { Kill, Struck, Victim } from './kills.js';
import { killUntilEnd } from './kills.js';
import type { Options } from './options.js';
import { readOptions, USAGE } from './options.js';
import type { AgentsReport, RunReport } from './report.js';
import { judgedRun, linesOfRun } from './report.js';
import type { Workload } from './workload.js';
import { ANSWERS, HEARTBEAT_TIMEOUT_S, REPEATS, requestOf, TOKENS_PER_SECOND } from './workload.js';
import { STORE } from '../stores.js';

/** How long one batch may take. */
const LIMIT_MS = 25 * 60_000;
/** For a database on the same machine as everything else. */
const COMMIT_S = 0.1;
const SERVER_AWAY_MS = 1000;
/** What ends with its life has ended by then. */
const LEFT_MS = 15_000;

const say = (line: string): void => {
  console.error(line);
};

function killsOf(
  { bed, worker, gateway }: AgentsBed,
  victims: readonly Victim[],
): Partial<Record<Victim, Kill>> {
  // prettier-ignore
  const all: Record<Victim, Kill> = {
    gateway: () => gateway.kill(),
    worker: () => worker.kill(),
    engine: async () => {
      await bed.killSimulator();
      await bed.startSimulator();
    },
    server: async () => {
      await bed.killServer();
      await sleep(SERVER_AWAY_MS);
      await bed.startServer();
    },
  };
  return Object.fromEntries(victims.map((victim) => [victim, all[victim]]));
}

interface Playing extends Workload {
  bed: AgentsBed;
  options: Options;
  name: RunReport['name'];
  rewards: ReadonlyMap<number, number> | null;
}

interface Played {
  report: RunReport;
  rewards: Map<number, number>;
}

async function play({ bed: stage, options, name, rewards, ...workload }: Playing): Promise<Played> {
  const { bed, storeOf, logs } = stage;
  const batch_id = `agents-${name}`;
  const log = await followLog(requestLogOf(bed.directory));
  const batch = bed.batch(STORE, batch_id);
  const request = requestOf(workload);
  const began = performance.now();
  await batch.start(request);
  const victims = name === 'killed' ? options.victims : [];
  const { struck } = await killUntilEnd(
    { seed: options.seed, kills: killsOf(stage, victims) },
    untilEnded(batch_id, { server: bed.server(), timeout_ms: LIMIT_MS }),
  );
  const duration_s = (performance.now() - began) / 1000;
  const { rollouts: rows, failures, failure: why } = await batch.outcome();
  if (why !== null) throw new Error(`batch ${batch_id}: ${why.type}: ${why.message}`);
  const heard = (await readHeard(logs)).filter(({ rollout_id }) => rollout_id.startsWith(`${batch_id}/`)); // prettier-ignore
  const left = await leftBy(stage, heard);
  const judged = judge({
    ...{ rows, failures, heard, struck, rewards },
    requested: request.num_repeats! * (request.samples as unknown[]).length,
    journals: linesOf(await storeOf(batch_id).journals()),
    streams: streamsOf(await log.read()),
    answers: ANSWERS,
    pace: {
      tokens_per_second: TOKENS_PER_SECOND,
      heartbeat_timeout_s: HEARTBEAT_TIMEOUT_S,
      commit_s: options.store === 'postgres' ? COMMIT_S : 0,
    },
  });
  for (const { failure } of failures.slice(0, 3)) say(`failed: ${failure?.message ?? ''}`);
  const report = judgedRun({ name, ...judged, kills: countsOf(struck), left, duration_s }, victims);
  for (const line of linesOfRun(report)) say(line);
  return { report, rewards: new Map(rows.map(({ row, total_reward }) => [row, total_reward])) };
}

function countsOf(struck: readonly Struck[]): Partial<Record<Victim, number>> {
  const counts: Partial<Record<Victim, number>> = {};
  for (const { victim } of struck) counts[victim] = (counts[victim] ?? 0) + 1;
  return counts;
}

/** Processes of agents, their folders, and requests of the engine. Each may take a moment to end. */
async function leftBy(
  { bed, folders, service }: AgentsBed,
  heard: readonly Heard[],
): Promise<string[]> {
  // prettier-ignore
  const look = async (): Promise<string[]> => {
    const pids = heard.map(({ pid }) => pid).filter((pid) => pid !== process.pid && isRunning(pid));
    const requests = await bed.simulator().runningRequests();
    return [
      ...pids.map((pid) => `process ${pid}`),
      ...(await folders()).map((folder) => `folder ${folder}`),
      ...(requests === 0 ? [] : [`${requests} requests of the engine`]),
      ...(service.running() === 0 ? [] : [`${service.running()} programs of the service`]),
    ];
  };
  for (const end = performance.now() + LEFT_MS; ;) {
    const left = await look();
    if (left.length === 0 || performance.now() > end) return left;
    await sleep(200);
  }
}

async function main(): Promise<void> {
  if (process.argv.includes('--help')) {
    console.log(USAGE);
    return;
  }
  const options = readOptions(process.argv.slice(2));
  const { seed, store, programs, served, victims, json } = options;
  say(`chaos of agents, store ${store}, seed ${seed}: ${programs} programs, ${served} of a service, kills of ${victims.join(', ')}`); // prettier-ignore
  const runs: RunReport[] = [];
  const bed = await startAgentsBed(store);
  try {
    await bed.bed.observed(async () => {
      const tasks = { bed, options, programs, served };
      // What a task is worth does not depend on the words of the policy.
      const quiet = await play({ ...tasks, name: 'undisturbed', repeats: 1, rewards: null });
      runs.push(quiet.report);
      const killed = await play({ ...tasks, name: 'killed', repeats: REPEATS, rewards: quiet.rewards }); // prettier-ignore
      runs.push(killed.report);
    });
  } finally {
    await bed.end();
  }
  const ok = runs.length === 2 && runs.every(({ broken }) => broken.length === 0);
  const report: AgentsReport = { schema_version: 1, seed, store, runs, ok };
  if (json !== null) await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
  process.exitCode = ok ? 0 : 1;
}

await main();
