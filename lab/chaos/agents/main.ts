import { writeFile } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';
import { requestLogOf } from '../../bed/simulator.js';
import type { LogFollower } from '../log-follower.js';
import { followLog } from '../log-follower.js';
import { linesOfAll } from '../play-durable.js';
import { streamsOf } from '../request-streams.js';
import type { AgentsBed } from './bed.js';
import { ownTemporaryFolder, startAgentsBed } from './bed.js';
import { untilEnded } from './ended.js';
import { readHeard } from './heard.js';
import { leftBy } from './left.js';
import { judge } from './judge.js';
import type { Kill, Struck, Victim } from './kills.js';
import { killUntilEnd } from './kills.js';
import type { Options } from './options.js';
import { agentsOptions } from './options.js';
import type { AgentsReport, RunReport } from './report.js';
import { judgedRun, linesOfRun } from './report.js';
import type { AgentsRequest } from './workload.js';
import type { RealAgent } from './real.js';
import { realAgents } from './real.js';
import { ANSWERS, HEARTBEAT_TIMEOUT_S, REPEATS, requestOf, TOKENS_PER_SECOND } from './workload.js';
import { STORE } from '../stores.js';

/** How long one batch may take. */
const LIMIT_MS = 25 * 60_000;
/** For a database on the same machine as everything else. */
const COMMIT_S = 0.1;
const SERVER_AWAY_MS = 1000;

const say = (line: string): void => {
  console.error(line);
};

function killsOf(
  { bed, worker, gateway }: AgentsBed,
  victims: readonly Victim[],
): Partial<Record<Victim, Kill>> {
  const all: Record<Victim, Kill> = {
    gateway: () => gateway.kill(),
    worker: () => worker.kill(),
    engine: async () => {
      await bed.engines[0]!.kill();
      await bed.engines[0]!.start();
    },
    server: async () => {
      await bed.killServer();
      await sleep(SERVER_AWAY_MS);
      await bed.startServer();
    },
  };
  return Object.fromEntries(victims.map((victim) => [victim, all[victim]]));
}

interface Playing {
  bed: AgentsBed;
  options: Options;
  name: RunReport['name'];
  request: AgentsRequest;
  victims: readonly Victim[];
  /** How many kills, if there is a limit. */
  most?: number;
  /** One that is not ours. */
  real?: RealAgent | null;
  rewards: ReadonlyMap<number, number> | null;
  /** Of a rollout without kills; null: of an agent that is not ours. */
  answers: number | null;
}

interface Played {
  report: RunReport;
  rewards: Map<number, number>;
}

async function play({
  bed: stage,
  options,
  name,
  request,
  victims,
  most,
  real = null,
  ...expected
}: Playing): Promise<Played> {
  const { bed, storeOf, logs } = stage;
  const batch_id = `agents-${name}`;
  const log = await followLog(requestLogOf(bed.directory));
  const batch = bed.batch(STORE, batch_id);
  const began = performance.now();
  await batch.start(request);
  const { struck } = await killUntilEnd(
    {
      ...{ seed: options.seed, kills: killsOf(stage, victims), most: most ?? Infinity },
      ...(real !== null && { isBusy: hasGoneOn(bed, log) }),
    },
    untilEnded(batch_id, { server: bed.server(), timeout_ms: LIMIT_MS }),
  );
  const duration_s = (performance.now() - began) / 1000;
  const { rollouts: rows, failures, failure: why } = await batch.outcome();
  if (why !== null) throw new Error(`batch ${batch_id}: ${why.type}: ${why.message}`);
  const heard = (await readHeard(logs)).filter(({ rollout_id }) =>
    rollout_id.startsWith(`${batch_id}/`),
  );
  const left = await leftBy(stage, { heard, real });
  const judged = judge({
    ...{ rows, failures, heard, struck, ...expected },
    requested: request.num_repeats * request.samples.length,
    journals: linesOfAll(await storeOf(batch_id).journals()),
    streams: streamsOf(await log.read()),
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

/** Answers between two kills: each program has some to be led back to. */
const ANSWERS_BETWEEN = 9;

/** Most of its time a program of others starts, or runs its tools: whether they have gone on since the last time, and one is being answered. */
function hasGoneOn({ simulator }: AgentsBed['bed'], log: LogFollower): () => Promise<boolean> {
  let before = 0;
  return async () => {
    const now = await log.generations();
    if (now < before + ANSWERS_BETWEEN || (await simulator().runningRequests()) === 0) return false;
    before = now;
    return true;
  };
}

function countsOf(struck: readonly Struck[]): Partial<Record<Victim, number>> {
  const counts: Partial<Record<Victim, number>> = {};
  for (const { victim } of struck) counts[victim] = (counts[victim] ?? 0) + 1;
  return counts;
}

/** Each task of ours is worth the same without kills, whatever the policy says; those of others are mended. */
async function* playAll(
  bed: AgentsBed,
  { options, real }: { options: Options; real: readonly RealAgent[] },
): AsyncGenerator<RunReport, void> {
  const own = { bed, options, answers: ANSWERS };
  if (options.programs + options.served > 0) {
    const quiet = await play({
      ...own,
      name: 'undisturbed',
      request: requestOf({ ...options, repeats: 1 }),
      victims: [],
      rewards: null,
    });
    yield quiet.report;
    const request = requestOf({ ...options, repeats: REPEATS });
    yield (
      await play({
        ...own,
        name: 'killed',
        request,
        victims: options.victims,
        rewards: quiet.rewards,
      })
    ).report;
  }
  for (const one of real) {
    const { name, request } = one;
    const rewards = new Map(request.samples.map((_, row) => [row, 1]));
    yield (
      await play({
        bed,
        options,
        name,
        request,
        victims: ['gateway'],
        most: 2,
        real: one,
        rewards,
        answers: null,
      })
    ).report;
  }
}

async function main(): Promise<void> {
  const options = agentsOptions();
  const { seed, store, programs, served, victims, json } = options;
  say(
    `chaos of agents, store ${store}, seed ${seed}: ${programs} programs, ${served} of a service, kills of ${victims.join(', ')}`,
  );
  const runs: RunReport[] = [];
  const temporary = await ownTemporaryFolder();
  const real = await realAgents(options, { say });
  const bed = await startAgentsBed(store, { temporary, real });
  try {
    await bed.bed.observed(async () => {
      for await (const report of playAll(bed, { options, real })) runs.push(report);
    });
  } finally {
    await bed.end();
  }
  const ok = runs.length > 0 && runs.every(({ broken }) => broken.length === 0);
  const report: AgentsReport = { schema_version: 1, seed, store, runs, ok };
  if (json !== null) await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
  process.exitCode = ok ? 0 : 1;
}

await main();
