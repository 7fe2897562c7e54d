import { writeFile } from 'node:fs/promises';
import { describeError } from '../../src/platform/errors.js';
import { tokenLimit } from './bounds.js';
import type { ChaosFault } from './fault.js';
import { FAULTS } from './faults.js';
import { interruptedBy, measure } from './measurement.js';
import { playDay } from './day/play.js';
import { playKills } from './kills/play.js';
import type { Options } from './options.js';
import { USAGE, chaosOptions } from './options.js';
import { playBare } from './play-bare.js';
import type { Play, Stage } from './play-durable.js';
import { openStage, playDurable } from './play-durable.js';
import type { ChaosReport, Cost, FaultReport } from './report.js';
import { judged, lineOf, summarized, tableOf } from './report.js';
import type { Moment } from './schedule.js';
import { scheduleOf } from './schedule.js';
import type { StoredBed } from './stores.js';
import { startStoredBed } from './stores.js';
import type { Workload } from './workload.js';
import {
  FIRST_TOKEN_TIMEOUT_S,
  HEARTBEAT_TIMEOUT_S,
  IDLE_TIMEOUT_S,
  LONG,
  SHORT,
  simulatorSettingsOf,
} from './workload.js';

/** No fault begins later; the remaining ones are reported as not played. */
const LIMIT_MS = 20 * 60_000;
const SHORT_HITS = 1;
/** For a database on the same machine as everything else. */
const COMMIT_S = 0.1;

const say = (line: string): void => {
  console.error(line);
};

/** The durable run, then the loops if they have the affected part. */
async function playFault(play: Play & { with_loops: boolean }): Promise<FaultReport> {
  const { fault, workload } = play;
  const { bed } = play.stage;
  const { evidence, cost, extra_attempts } = await playDurable(play);
  await bed.simulator().clearFaults();
  const bare = async (restart: 'all' | 'unfinished'): Promise<Cost | null> => {
    if (!play.with_loops || (fault.part !== 'player' && fault.part !== 'engine')) return null;
    const spent = await playBare(play, restart);
    await bed.simulator().clearFaults();
    return spent;
  };
  const interrupted = interruptedBy(evidence);
  const { interrupts } = fault;
  const pace = {
    tokens_per_second: workload.tokens_per_second,
    heartbeat_timeout_s: HEARTBEAT_TIMEOUT_S,
    commit_s: play.stage.storeOf('').database === null ? 0 : COMMIT_S,
  };
  return judged({
    name: fault.name,
    hits: evidence.hits.length,
    held_s: (evidence.hits.length * fault.hold_ms) / 1000,
    interrupts,
    interrupted_streams: interrupted.streams,
    tokens_after_disconnect: interrupted.tokens_after_disconnect,
    tokens_limit: tokenLimit(interrupts, { interrupted, pace }),
    extra_attempts,
    ...measure(evidence),
    durable: cost,
    restart_all: await bare('all'),
    restart_unfinished: await bare('unfinished'),
  });
}

interface Plan {
  faults: readonly ChaosFault[];
  workload: Workload;
  options: Options;
}

function momentsOf(fault: ChaosFault, { workload, options }: Plan): Moment[] {
  const { rollouts, turns, tokens_per_second, thinking_tokens } = workload;
  return scheduleOf({
    seed: options.seed,
    fault: fault.name,
    hits: options.short ? SHORT_HITS : fault.hits,
    rollouts,
    turns,
    turn_ms: (thinking_tokens / tokens_per_second) * 1000,
  });
}

/**
 * One after the other. A fault that could not be played may leave anything behind, so the next one gets a new stage.
 */
async function playAll(plan: Plan): Promise<Pick<ChaosReport, 'faults' | 'not_played'>> {
  const began = performance.now();
  const faults: FaultReport[] = [];
  const not_played: ChaosReport['not_played'] = [];
  let stage: Stage | null = null;
  for (const fault of plan.faults) {
    const { name } = fault;
    if (performance.now() - began > LIMIT_MS) {
      not_played.push({ name, reason: `the limit of ${LIMIT_MS / 60_000} minutes had passed` });
      continue;
    }
    stage ??= await openStage(() => startBed(plan));
    try {
      const play = {
        ...{ stage, fault, workload: plan.workload },
        moments: momentsOf(fault, plan),
        with_loops: !plan.options.short || fault.short === 'with_loops',
      };
      await stage.bed.observed(async () => {
        const report = await playFault(play);
        faults.push(report);
        say(lineOf(report));
      });
    } catch (error) {
      not_played.push({ name, reason: describeError(error) });
      say(`${name}: ${describeError(error)}`);
      await stage.bed.end();
      stage = null;
    }
  }
  await stage?.bed.end();
  return { faults, not_played };
}

const startBed = ({ workload, options }: Plan): Promise<StoredBed> =>
  startStoredBed(options.store, {
    own_server: true,
    name: 'chaos',
    // A fault that fills the disk must hit only the store, so the worker's log goes through a pipe.
    pipe_log: true,
    simulator: simulatorSettingsOf(workload),
    worker: { heartbeat_timeout: `${HEARTBEAT_TIMEOUT_S}s` },
    generation: {
      first_token_timeout: `${FIRST_TOKEN_TIMEOUT_S}s`,
      idle_timeout: `${IDLE_TIMEOUT_S}s`,
    },
  });

async function main(): Promise<void> {
  const options = chaosOptions();
  const { short, seed, only, store } = options;
  const workload = short ? SHORT : LONG;
  const faults = FAULTS.filter(
    ({ name, short: part, store: struck = store }) =>
      struck === store &&
      only.split(',').some((text) => name.includes(text)) &&
      (!short || part !== null || only !== ''),
  );
  if (faults.length === 0) throw new Error(`no fault's name contains ${only}\n\n${USAGE}`);
  const began = performance.now();
  const { parts } = options;
  const names = [
    ...(parts.faults ? faults.map(({ name }) => name) : []),
    ...(parts.kills ? ['kills'] : []),
    ...(parts.day ? ["an operator's day"] : []),
  ];
  say(`chaos, store ${store}, seed ${seed}: ${names.join(', ')}`);
  const plan = { faults: parts.faults ? faults : [], workload, options };
  const { faults: struck, not_played } = await playAll(plan);
  const nothing = { kills: [], day: [], not_played: [] };
  const killed = parts.kills ? await playKills(say) : nothing;
  const operated = parts.day ? await playDay(say, { seed }) : nothing;
  const duration_s = (performance.now() - began) / 1000;
  const report = summarized({
    ...{ seed, form: short ? 'short' : 'long', store, duration_s },
    ...{ faults: struck, kills: killed.kills, day: operated.day },
    not_played: [...not_played, ...killed.not_played, ...operated.not_played],
  });
  await publish(report, options.json);
  process.exitCode = report.ok ? 0 : 1;
}

/** The table goes to stdout. If the JSON goes there, too, it is the last line. */
async function publish(report: ChaosReport, json: string | null): Promise<void> {
  const table = tableOf(report);
  if (json === '-') {
    say(table);
    console.log(JSON.stringify(report));
    return;
  }
  console.log(table);
  if (json !== null) await writeFile(json, `${JSON.stringify(report, null, 2)}\n`);
}

await main();
