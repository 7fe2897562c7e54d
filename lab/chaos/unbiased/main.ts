import { randomInt } from 'node:crypto';
import { writeFile } from 'node:fs/promises';
import { readOptions } from '../../options.js';
import { openStage } from '../play-durable.js';
import type { StoredBed } from '../stores.js';
import { startStoredBed } from '../stores.js';
import { playDurableArm, playStartedOver } from './arms.js';
import type { Arm } from './arms.js';
import type { ArmResult } from './report.js';
import { reportOf, tableOf } from './report.js';
import {
  HEARTBEAT_TIMEOUT_S,
  KILL_EVERY_S,
  ROLLOUTS,
  SIMULATOR,
  STREAM_TIMEOUT_S,
} from './workload.js';

const USAGE = `npm run unbiased -- [--seed N] [--json FILE]

  --seed N     of what is sampled and of the kills; else a random one, which is printed
  --json FILE  the report as JSON, with every length and reward`;

/** Everything ends by then; an arm that has not ended is an error. */
const LIMIT_MS = 30 * 60_000;
/** The share of that time for starting and ending processes. */
const RESERVE_MS = 60_000;

const say = (line: string): void => {
  console.error(line);
};

async function main(): Promise<void> {
  const { seed, json } = readOptions({ usage: USAGE }, { seed: randomInt(1_000_000), json: null });
  say(
    `unbiased, seed ${seed}: three times ${ROLLOUTS} rollouts, kills every ${KILL_EVERY_S} s, heartbeat timeout ${HEARTBEAT_TIMEOUT_S} s`,
  );
  const began = performance.now();
  const results = await playArms({ seed, deadline: began + LIMIT_MS - RESERVE_MS });
  const report = reportOf(results, { seed, duration_s: (performance.now() - began) / 1000 });
  console.log(tableOf(report));
  if (json !== null) await writeFile(json, `${JSON.stringify(report)}\n`);
  process.exitCode = report.ok ? 0 : 1;
}

/** One after the other, with the same processes. */
async function playArms(given: Omit<Arm, 'stage'>): Promise<ArmResult[]> {
  const stage = await openStage(startBed);
  const arm: Arm = { ...given, stage };
  const results: ArmResult[] = [];
  const note = (result: ArmResult): void => {
    results.push(result);
    const { name, lengths, duration_s, kills } = result;
    say(`${name}: ${lengths.length} rollouts, ${kills.length} kills, ${duration_s.toFixed(0)} s`);
  };
  try {
    await stage.bed.observed(async () => {
      note(await playDurableArm(arm, 'undisturbed'));
      note(await playDurableArm(arm, 'resumed'));
      note(await playStartedOver(arm));
    });
  } finally {
    await stage.bed.end();
  }
  return results;
}

const startBed = (): Promise<StoredBed> =>
  startStoredBed('file', {
    own_server: true,
    name: 'unbiased',
    simulator: SIMULATOR,
    worker: { heartbeat_timeout: `${HEARTBEAT_TIMEOUT_S}s` },
    generation: {
      first_token_timeout: `${STREAM_TIMEOUT_S}s`,
      idle_timeout: `${STREAM_TIMEOUT_S}s`,
    },
  });

await main();
